"""An application of applications."""
import typer

app = typer.Typer()
data = typer.Typer(help="Data.")
app.add_typer(data, name="data")


@data.command()
def download(url: str, force: bool = typer.Option(False, "--force/--again")):
    ...


@data.command()
def clean():
    ...


@app.command()
def fit(ctx: typer.Context, learning_rate: float = 3e-3, max_depth: int = 6):
    ...


if __name__ == "__main__":
    app()
