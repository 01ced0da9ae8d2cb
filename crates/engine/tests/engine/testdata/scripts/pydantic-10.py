"""What is trained is not installed."""
import gymnasium as gym
import torch.nn as nn
from pydantic_settings import BaseSettings


class Policy(nn.Module):
    def __init__(self, width=64):
        super().__init__()


class Config(BaseSettings, cli_parse_args=True, cli_kebab_case=False):
    lr: float = 1e-3
    gamma: float = 0.99


if __name__ == "__main__":
    config = Config()
    env = gym.make("CartPole-v1")
