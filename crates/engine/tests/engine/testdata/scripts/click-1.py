import click
import pathlib


@click.command(context_settings={"show_default": True})
@click.option("--lr", default=0.1, help="Learning rate.")
@click.option("--epochs", "-e", type=int, default=10, show_default=True)
@click.option("--optimizer", type=click.Choice(["sgd", "adam"], case_sensitive=False), default="adam")
@click.option("--amp/--no-amp", default=False)
@click.option("--fast", is_flag=True)
@click.option("--name", required=True)
@click.option("-n", "count", type=int, default=3)
@click.option("--betas", nargs=2, type=float, default=(0.9, 0.99))
@click.option("--tag", multiple=True)
@click.option("-v", "--verbose", count=True)
@click.option("--size", type=click.IntRange(1, 10), default=2)
@click.version_option("1.0")
@click.argument("data", type=click.Path())
def main(**kwargs):
    click.echo(kwargs)


if __name__ == "__main__":
    main()
