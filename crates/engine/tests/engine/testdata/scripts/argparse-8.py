"""A class that reads the options, and optional imports."""
import argparse
import sys

try:
    import wandb
    HAS_WANDB = True
except ImportError:
    HAS_WANDB = False


class BaseOptions:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
        self.initialized = False

    def initialize(self):
        self.parser.add_argument("--name", type=str, default="experiment_name")
        self.parser.add_argument("--ngf", type=int, default=64)
        self.parser.add_argument("--init_type", type=str, default="normal", choices=["normal", "xavier"])
        self.initialized = True


class TrainOptions(BaseOptions):
    def initialize(self):
        BaseOptions.initialize(self)
        self.parser.add_argument("--n_epochs", type=int, default=100)
        self.parser.add_argument("--lr", type=float, default=0.0002)
        self.parser.add_argument("--use_wandb", action=argparse.BooleanOptionalAction, default=False)

    def parse(self):
        if not self.initialized:
            self.initialize()
        self.opt = self.parser.parse_args()
        return self.opt


if __name__ == "__main__":
    if sys.version_info < (3, 8):
        sys.exit("too old")
    opt = TrainOptions().parse()
