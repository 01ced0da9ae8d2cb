"""A nested class, and a base."""
from dataclasses import dataclass, field

from simple_parsing import parse


@dataclass
class Opt:
    momentum: float = 0.9


@dataclass
class Base:
    lr: float = 0.1


@dataclass
class Config(Base):
    opt: Opt = field(default_factory=Opt)
    steps: int = 10


if __name__ == "__main__":
    config = parse(Config, description="x")
