"""Choices: enumerations and literals."""
from dataclasses import dataclass, field
from enum import Enum
from typing import List, Literal

from transformers import HfArgumentParser


class Schedule(Enum):
    LINEAR = "linear"
    COSINE = "cosine"


@dataclass
class Arguments:
    schedule: Schedule = Schedule.LINEAR
    level: Literal[1, 2] = 1
    learning_rate: float = 5e-5
    betas: List[float] = field(default_factory=lambda: [0.9, 0.999])
    optim: Literal["adamw", "sgd"] = "adamw"
    seed: int = 42


parser = HfArgumentParser(Arguments)
(args,) = parser.parse_args_into_dataclasses(return_remaining_strings=False)
