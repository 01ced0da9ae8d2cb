"""A dataclass as the component."""
from dataclasses import dataclass, field

from jsonargparse import CLI


@dataclass
class Opt:
    momentum: float = 0.9
    nesterov: bool = False


@dataclass
class Train:
    lr: float = 0.1
    opt: Opt = field(default_factory=Opt)


if __name__ == "__main__":
    CLI(Train, as_positional=False)
