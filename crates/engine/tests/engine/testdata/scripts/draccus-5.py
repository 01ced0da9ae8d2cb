"""An enumeration."""
import enum
from dataclasses import dataclass

import draccus


class Kind(enum.Enum):
    adam = "a"
    sgd = "s"


@dataclass
class Config:
    lr: float
    kind: Kind = Kind.sgd


if __name__ == "__main__":
    cfg = draccus.parse(Config)
