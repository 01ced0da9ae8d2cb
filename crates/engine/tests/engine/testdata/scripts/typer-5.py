"""Commands with a callback, and a version."""
from __future__ import annotations

import typer
from typing_extensions import Annotated

app = typer.Typer(add_completion=False, no_args_is_help=True)


def version(value: bool):
    if value:
        raise typer.Exit()


@app.callback()
def common(version: bool = typer.Option(None, "--version", callback=version, is_eager=True)):
    """Models."""


@app.command()
def train(data: str, batch_size: int = 32, warmup: float = 0.1, fp16: bool = False):
    pass


@app.command("predict")
def run_predict(model: Annotated[str, typer.Argument(help="A file.")], top_k: int = 5, quiet: Annotated[bool, typer.Option("--quiet")] = False):
    pass


if __name__ == "__main__":
    app()
