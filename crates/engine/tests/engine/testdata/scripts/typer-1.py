from enum import Enum
from pathlib import Path
from typing import Annotated, List, Optional, Tuple

import typer


class Opt(str, Enum):
    adam = "adam"
    sgd = "sgd"


def main(
    data: Path,
    lr: float = 1e-3,
    opt: Opt = Opt.adam,
    batch_size: Annotated[int, typer.Option(help="size", min=1)] = 32,
    amp: bool = False,
    fast: Annotated[bool, typer.Option("--fast")] = False,
    name: Optional[str] = None,
    tags: List[str] = [],
    betas: Tuple[float, float] = (0.9, 0.99),
    seed: int = typer.Option(0, "--seed", "-s", help="the seed"),
    required: int = typer.Option(...),
):
    print(lr)


if __name__ == "__main__":
    typer.run(main)
