"""A class as the configuration."""
import enum
from dataclasses import dataclass, field
from typing import List, Optional

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


class Kind(enum.Enum):
    ADAM = 1
    SGD = 2


@dataclass
class Opt:
    momentum: float = 0.9
    nesterov: bool = False


@dataclass
class Config:
    lr: float = 0.1
    batch_size: int = 32
    kind: Kind = Kind.ADAM
    layers: List[int] = field(default_factory=lambda: [64, 64])
    opt: Opt = field(default_factory=Opt)
    path: str = MISSING
    limit: Optional[int] = None


cs = ConfigStore.instance()
cs.store(name="config", node=Config)


@hydra.main(version_base=None, config_name="config")
def main(cfg: Config) -> None:
    print(cfg)


if __name__ == "__main__":
    main()
