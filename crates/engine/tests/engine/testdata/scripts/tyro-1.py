"""Policy optimization."""
import os
import random
import time
from dataclasses import dataclass

import gymnasium
import tyro


@dataclass
class Args:
    exp_name: str = os.path.basename(__file__)[: -len(".py")]
    """the name of this experiment"""
    seed: int = 1
    """the seed"""
    torch_deterministic: bool = True
    cuda: bool = True
    learning_rate: float = 2.5e-4
    num_envs: int = 8
    gae_lambda: float = 0.95  # of the advantages
    target_kl: float = None
    batch_size: int = 0
    """(computed in runtime)"""


if __name__ == "__main__":
    args = tyro.cli(Args)
    args.batch_size = int(args.num_envs * 4)
