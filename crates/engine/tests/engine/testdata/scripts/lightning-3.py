"""A class that derives from the command line, and one of the package."""
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import DemoModel
from lightning.pytorch import LightningModule


class Net(LightningModule):
    def __init__(self, lr: float = 0.1, depth: int = 2):
        super().__init__()


class CLI(LightningCLI):
    def add_arguments_to_parser(self, parser):
        parser.add_lightning_class_args(object, "early_stopping")


if __name__ == "__main__":
    CLI(Net)
