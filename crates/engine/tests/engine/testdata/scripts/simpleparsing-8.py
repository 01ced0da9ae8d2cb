"""What it works with is not installed; fields with descriptions."""
from dataclasses import dataclass

import gym
import torch
from simple_parsing import ArgumentParser


@dataclass
class Args:
    env: str = "CartPole"
    """The environment."""
    gamma: float = 0.99
    lr: float = 1e-3


def main(args: Args):
    torch.manual_seed(0)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_arguments(Args, dest="args")
    main(parser.parse_args().args)
