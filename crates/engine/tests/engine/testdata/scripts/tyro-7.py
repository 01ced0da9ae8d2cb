"""A function with types in strings, and unions."""
import enum
import pathlib
from typing import List, Optional, Sequence

import tyro


class Mode(enum.Enum):
    TRAIN = enum.auto()
    EVAL = enum.auto()


def train(*, lr: "float" = 3e-4, mode: Mode = Mode.TRAIN, layers: List[int] = [64, 64], limit: int | None = None, data: pathlib.Path, amp: bool = False):
    """Trains.

    Args:
        lr: the rate
        mode: what is done
    """


if __name__ == "__main__":
    tyro.cli(train)
