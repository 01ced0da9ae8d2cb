"""A parser with classes and a file."""
import torch.nn as nn
from jsonargparse import ActionConfigFile, ArgumentParser


class Model(nn.Module):
    def __init__(self, width: int = 64, dropout: float = 0.1):
        super().__init__()


class Data:
    def __init__(self, batch_size: int = 32):
        self.batch_size = batch_size


def build():
    parser = ArgumentParser(prog="train", description="x")
    parser.add_argument("--config", action=ActionConfigFile)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_class_arguments(Model, "model")
    parser.add_class_arguments(Data, nested_key="data")
    return parser


if __name__ == "__main__":
    cfg = build().parse_args()
