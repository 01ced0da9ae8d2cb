"""A union of classes is a choice of commands."""
from dataclasses import dataclass
from typing import Union

import tyro


@dataclass
class TrainArgs:
    lr: float = 0.1
    depth: int = 2


@dataclass
class EvalArgs:
    checkpoint: str


if __name__ == "__main__":
    args = tyro.cli(Union[TrainArgs, EvalArgs])
