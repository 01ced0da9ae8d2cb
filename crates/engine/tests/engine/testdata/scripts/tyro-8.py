"""Annotations of tyro, a name that it changes."""
from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass
class Args:
    rate: Annotated[float, tyro.conf.arg(name="learning-rate")] = 1e-2
    seed: int = 0
    debug: bool = False
    wd: Annotated[float, tyro.conf.arg(help="weight decay")] = 0.1


args = tyro.cli(Args)
