"""The command line of Lightning."""
import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI


class Model(LightningModule):
    def __init__(self, lr: float = 1e-3, hidden: int = 64):
        super().__init__()
        self.save_hyperparameters()


class Data(LightningDataModule):
    def __init__(self, batch_size: int = 32, root: str = "./data"):
        super().__init__()


def cli_main():
    cli = LightningCLI(Model, Data, seed_everything_default=1234, save_config_callback=None)


if __name__ == "__main__":
    cli_main()
