"""Options that commands share, by a decorator."""
import functools

import click

DEVICES = ("cpu", "cuda")
device_option = click.option("--device", type=click.Choice(DEVICES), default=DEVICES[0])


def common(function):
    function = device_option(function)
    return function


@click.group(context_settings=dict(max_content_width=120))
@click.version_option("1.0")
def cli():
    pass


@cli.command()
@click.argument("data", type=click.Path(exists=True))
@click.option("-e", "--epochs", default=3, type=int)
@click.option("--batch", default=32)
@common
def train(data, epochs, batch, device):
    pass


@cli.command(name="eval-model")
@common
@click.option("--checkpoint", required=True)
def evaluate(checkpoint, device):
    pass


if __name__ == "__main__":
    cli(obj={})
