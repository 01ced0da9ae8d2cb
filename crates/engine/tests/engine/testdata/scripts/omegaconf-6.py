"""A class with an enumeration."""
import enum
from dataclasses import dataclass, field

from omegaconf import MISSING, OmegaConf


class Name(enum.Enum):
    ADAM = 1
    SGD = 2


@dataclass
class Optim:
    name: Name = Name.SGD
    lr: float = 0.1


@dataclass
class Config:
    optim: Optim = field(default_factory=Optim)
    steps: int = 10
    path: str = MISSING


config = OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.from_cli())
