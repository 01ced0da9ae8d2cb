"""A template: packages of groups, a decorator within, and a root that is set up."""
from typing import Any, Dict, Optional, Tuple

import hydra
import lightning as L
import rootutils
import torch
from omegaconf import DictConfig

rootutils.setup_root(__file__, indicator=".project-root", pythonpath=True)

from src.utils import RankedLogger, task_wrapper

log = RankedLogger(__name__, rank_zero_only=True)


@task_wrapper
def train(cfg: DictConfig) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    if cfg.get("seed"):
        L.seed_everything(cfg.seed, workers=True)
    return {}, {}


@hydra.main(version_base="1.3", config_path="./conf", config_name="train.yaml")
def main(cfg: DictConfig) -> Optional[float]:
    metric_dict, _ = train(cfg)


if __name__ == "__main__":
    main()
