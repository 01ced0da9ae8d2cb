"""A package of the same kind under another name."""
from dataclasses import dataclass
import draccus as pyrallis


@dataclass
class Config:
    lr: float = 0.1


config = pyrallis.parse(config_class=Config)
