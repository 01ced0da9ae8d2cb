"""A configuration that is wrapped around the function."""
from dataclasses import dataclass, field
from pathlib import Path

import draccus


@dataclass
class Optim:
    name: str = "adam"
    weight_decay: float = 0.01


@dataclass
class TrainConfig:
    lr: float = 0.1
    optim: Optim = field(default_factory=Optim)
    seed: int = 1_000


@draccus.wrap()
def train(cfg: TrainConfig):
    print(cfg)


if __name__ == "__main__":
    train()
