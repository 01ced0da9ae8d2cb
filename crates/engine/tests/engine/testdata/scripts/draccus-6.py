"""Deeply nested classes."""
from dataclasses import dataclass, field
from typing import Tuple

import draccus
import torch


@dataclass
class Mlp:
    ratio: float = 4.0


@dataclass
class Model:
    d_model: int = 512
    n_head: int = 8
    mlp: Mlp = field(default_factory=Mlp)


@dataclass
class Train:
    lr: float = 6e-4
    betas: Tuple[float, float] = (0.9, 0.95)


@dataclass
class Config:
    model: Model = field(default_factory=Model)
    train: Train = field(default_factory=Train)


@draccus.wrap()
def main(config: Config) -> None:
    torch.manual_seed(0)


if __name__ == "__main__":
    main()
