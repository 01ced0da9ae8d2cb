"""Types of several kinds, and arguments that are passed on."""
from typing import Literal, Tuple

import pytorch_lightning as pl
from pytorch_lightning.utilities.cli import LightningCLI


class Model(pl.LightningModule):
    def __init__(self, lr: float, optimizer: Literal["adam", "sgd"] = "adam", betas: Tuple[float, float] = (0.9, 0.99), **kwargs):
        super().__init__()


if __name__ == "__main__":
    LightningCLI(Model, run=False)
