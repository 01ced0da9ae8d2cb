"""A decorator around the function, and a default of a class."""
import dataclasses

import typer

app = typer.Typer(pretty_exceptions_enable=False)


@dataclasses.dataclass
class Defaults:
    lr: float = 0.01
    gamma: float = 0.99


@app.command()
def main(
    lr: float = Defaults.lr,
    gamma: float = Defaults().gamma,
    env_id: str = "CartPole-" + "v1",
    capture_video: bool = typer.Option(False, "--capture-video"),
):
    pass


app()
