"""Annotated values, functions and classes beside them."""
import math
from dataclasses import dataclass

width: int = 64
depth: int = math.floor(4.5)
lr: float = 10 ** -3


def loss(x):
    return x


@dataclass
class State:
    step: int = 0


exec(open("configurator.py", encoding="utf-8").read(), globals())
