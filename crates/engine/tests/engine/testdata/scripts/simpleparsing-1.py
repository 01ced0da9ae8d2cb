from dataclasses import dataclass, field
from typing import List, Optional

from simple_parsing import ArgumentParser, choice


@dataclass
class Opt:
    momentum: float = 0.9
    nesterov: bool = False


@dataclass
class Config:
    lr: float = 0.1  # the rate
    batch_size: int = 32
    amp: bool = True
    limit: Optional[int] = None
    sizes: List[int] = field(default_factory=lambda: [1, 2])
    opt: Opt = field(default_factory=Opt)
    name: str = choice("a", "b", default="a")


parser = ArgumentParser()
parser.add_argument("--seed", type=int, default=1)
parser.add_arguments(Config, dest="config")
args = parser.parse_args()
