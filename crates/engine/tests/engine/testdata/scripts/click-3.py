import functools

import click


def common(function):
    function = click.option("--seed", type=int, default=0)(function)
    return click.option("--debug", is_flag=True, default=False)(function)


@click.command(name="train")
@common
@click.option("--width", default=64, type=int)
@click.option("--flag-value", flag_value="x")
@click.option("--truth", type=bool, default=True)
@click.option("--secret", hidden=True)
def run(width, seed, debug, **more):
    return width


run(standalone_mode=False)
