from __future__ import annotations

import dataclasses
import enum
import pathlib
from typing import Literal, Optional

import tyro


class Kind(enum.Enum):
    A = enum.auto()
    B = enum.auto()


@dataclasses.dataclass(frozen=True)
class Optimizer:
    lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.999)
    nesterov: bool = False


@dataclasses.dataclass
class Config:
    data: pathlib.Path
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    teacher: Optimizer = dataclasses.field(default_factory=lambda: Optimizer(lr=1.0))
    kind: Kind = Kind.B
    size: Literal["s", "m", "l"] = "m"
    limit: Optional[int] = None
    sizes: list[int] = dataclasses.field(default_factory=lambda: [1, 2])

    def total(self) -> int:
        return sum(self.sizes)


config = tyro.cli(Config)
