"""Ranges, and defaults that are shown."""
import pathlib

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--lr", "-l", type=click.FloatRange(0, 1, min_open=True), default=1e-3, help="Rate.", show_default=True)
@click.option("--weight-decay", type=float, default=0.0)
@click.option("--optimizer", type=click.Choice(["adam", "sgd", "adamw"], case_sensitive=False), default="adam")
@click.option("--layers", type=click.IntRange(1, 3), default=2)
@click.option("--dropout", type=click.FloatRange(0, 0.5), default=0.1)
@click.option("--seed", type=int, default=0)
@click.option("--out", type=click.Path(path_type=pathlib.Path, file_okay=False))
def main(lr, weight_decay, optimizer, layers, dropout, seed, out):
    """Trains a model."""


if __name__ == "__main__":
    main()
