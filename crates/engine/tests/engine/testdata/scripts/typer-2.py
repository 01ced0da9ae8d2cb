import typer

app = typer.Typer(help="x")


@app.command()
def train(lr: float = 0.1, layers: int = 2):
    """Trains."""


if __name__ == "__main__":
    app()
