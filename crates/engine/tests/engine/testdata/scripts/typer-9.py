"""Required options, and a letter alone."""
import enum

import torch
import typer
from rich import print


class Size(enum.Enum):
    GPT = "gpt2"
    LLAMA = "llama"


def train(
    steps: int = typer.Option(..., help="Steps."),
    lr: float = 3e-4,
    model: Size = typer.Option(Size.GPT),
    k: int = typer.Option(4, "-k"),
):
    torch.manual_seed(0)


if __name__ == "__main__":
    typer.run(train)
