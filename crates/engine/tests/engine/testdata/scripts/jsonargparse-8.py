"""An enumeration, and a tuple."""
import enum
from typing import Tuple

from jsonargparse import CLI


class Kind(enum.Enum):
    ADAM = 1
    SGD = 2


def train(lr: float = 0.1, kind: Kind = Kind.SGD, betas: Tuple[float, float] = (0.9, 0.95)):
    pass


CLI(train)
