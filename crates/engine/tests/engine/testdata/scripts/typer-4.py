"""Annotated options."""
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer


class Optimizer(str, Enum):
    adam = "adam"
    sgd = "sgd"


def main(
    lr: Annotated[float, typer.Option("--lr", "-l", help="Rate.", min=0.0, max=1.0)] = 1e-3,
    optimizer: Annotated[Optimizer, typer.Option(case_sensitive=False)] = Optimizer.adam,
    hidden: Annotated[int, typer.Option(min=8, max=512)] = 128,
    dropout: float = typer.Option(0.0, min=0.0, max=0.9),
    bias: bool = True,
    cache: Annotated[bool, typer.Option("--cache/--no-cache")] = False,
    out: Path = Path("runs"),
    seed: Optional[int] = 42,
):
    """Trains."""


if __name__ == "__main__":
    typer.run(main)
