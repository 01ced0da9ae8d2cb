import typer

app = typer.Typer()
data = typer.Typer()
app.add_typer(data, name="data")


@app.command()
def train(lr: float = 0.1):
    pass


@app.command("test")
def evaluate(ctx: typer.Context, split: str = "val"):
    pass


@data.command()
def fetch(url: str):
    pass


app()
