"""An application with one command, called from a function."""
import typer

DEFAULT_LR = 0.1
app = typer.Typer()
state = {"verbose": False}


@app.command(name="fit", help="Fits.", no_args_is_help=False)
def fit_model(
    lr: float = typer.Option(DEFAULT_LR, help="Rate", rich_help_panel="Model"),
    random_state: int = typer.Option(1, "--random-state", "-r"),
    n_estimators: int = typer.Option(default=100),
    hidden: bool = typer.Option(False, hidden=True),
) -> None:
    """Fits."""


def entry():
    app()


if __name__ == "__main__":
    entry()
