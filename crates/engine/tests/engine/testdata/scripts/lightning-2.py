"""It parses only, and runs by itself."""
from pytorch_lightning import LightningModule
from pytorch_lightning.cli import LightningCLI


class Model(LightningModule):
    def __init__(self, width: int = 32, act: str = "relu"):
        super().__init__()


def main():
    cli = LightningCLI(model_class=Model, run=False)
    cli.trainer.fit(cli.model)


if __name__ == "__main__":
    main()
