"""An enumeration, and what is computed."""
import enum
import os

import click


class Model(enum.Enum):
    RESNET = "resnet"
    VGG = "vgg"


@click.command("train", help="Trains.")
@click.option("--model", type=click.Choice([m.name for m in Model]), default=Model.RESNET.name)
@click.option("--depth", type=click.Choice(["18", "34", "50"]), default="34")
@click.option("--lr", default=1e-2, type=float, envvar="LR", show_envvar=True)
@click.option("--amp", is_flag=True)
@click.option("--workers", default=lambda: os.cpu_count(), type=int)
def train(**kwargs):
    """\b
    Text."""
    print(kwargs)


if __name__ == "__main__":
    train(auto_envvar_prefix="TRAIN")
