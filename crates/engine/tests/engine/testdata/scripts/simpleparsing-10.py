"""A class of a module beside it, and a required field."""
from dataclasses import dataclass

from simple_parsing import parse

from tyro_agents import Agent  # noqa: F401


@dataclass
class Config:
    lr: float
    width: int = 64
    depth: int = 2


if __name__ == "__main__":
    print(parse(Config))
