"""A class that derives from one of a module, with text that is not ASCII."""
from dataclasses import dataclass

import draccus

from draccus_base import Base


@dataclass
class Config(Base):
    temperature: float = 0.7


draccus.parse(Config)
