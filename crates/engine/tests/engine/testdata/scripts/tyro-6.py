"""Classes in classes, derived classes, and lists of choices."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal, Optional, Tuple

import tyro


@dataclass(frozen=True)
class Model:
    width: int = 256  # of all layers
    depth: int = 4
    act: Literal["relu", "gelu"] = "gelu"


@dataclass
class Optim:
    lr: float = 3e-4
    schedule: Literal["cosine", "none"] = "cosine"
    betas: Tuple[float, float] = (0.9, 0.95)


@dataclass
class Base:
    model: Model = field(default_factory=Model)
    optim: Optim = dataclasses.field(default_factory=lambda: Optim(lr=3e-4))


@dataclass(kw_only=True)
class Config(Base):
    name: str = "run"
    steps: int = 1_000
    compile: bool = True


def main(config: Config) -> None:
    print(config)


if __name__ == "__main__":
    main(tyro.cli(Config))
