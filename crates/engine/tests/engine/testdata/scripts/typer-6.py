"""Types of several kinds."""
from typing import List, Literal, Tuple, Union

import typer


def main(
    name: str = typer.Argument("world"),
    config: typer.FileText = typer.Option("conf.yaml"),
    lr: Union[float, None] = None,
    mode: Literal["fast", "slow"] = "fast",
    betas: Tuple[float, float] = (0.9, 0.999),
    layers: List[int] = typer.Option([], "--layers"),
):
    print(name)


if __name__ == "__main__":
    typer.run(main)
