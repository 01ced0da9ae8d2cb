import click


@click.group()
@click.option("--debug/--no-debug", default=False)
@click.pass_context
def cli(ctx, debug):
    ctx.obj = debug


@cli.command()
@click.option("--lr", type=float, default=0.1)
@click.argument("path", default="data")
def train(lr, path):
    pass


@cli.command("evaluate")
@click.option("--split", default="test")
def evaluate_model(split):
    pass


if __name__ == "__main__":
    cli()
