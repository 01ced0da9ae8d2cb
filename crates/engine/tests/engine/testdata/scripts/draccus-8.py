"""A robot: a config with checks and a property."""
import logging
from dataclasses import dataclass, field

import draccus
from lerobot.common import policies


@dataclass
class Policy:
    lr: float = 1e-5
    kind: str = "act"


@dataclass
class TrainPipelineConfig:
    policy: Policy = field(default_factory=Policy)
    batch_size: int = 8
    eval_freq: int = 20_000

    def __post_init__(self):
        self.checkpoint_path = None

    def validate(self):
        pass

    @classmethod
    def default(cls):
        return cls()


@draccus.wrap()
def train(cfg: TrainPipelineConfig):
    cfg.validate()


if __name__ == "__main__":
    logging.basicConfig()
    train()
