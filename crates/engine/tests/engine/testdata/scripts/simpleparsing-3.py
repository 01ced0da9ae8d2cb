"""Choices and lists of simple_parsing."""
from dataclasses import dataclass
from typing import Tuple

from simple_parsing import ArgumentParser, choice, field, list_field


@dataclass
class HParams:
    """Hyperparameters."""

    lr: float = 0.1  # Learning rate.
    hidden_dim: int = 256
    optimizer: str = choice("adam", "sgd", "rmsprop", default="adam")
    betas: Tuple[float, float] = (0.9, 0.999)
    seed: int = 1
    verbose: bool = False


parser = ArgumentParser()
parser.add_arguments(HParams, dest="hparams")
args = parser.parse_args()
