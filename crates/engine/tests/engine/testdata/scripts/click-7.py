"""Names of several kinds."""
import click


@click.command()
@click.option("--learning-rate", "--rate", "rate", default=0.5)
@click.option("--shout", is_flag=True, default=False)
@click.option("-n", "number", default=10, show_default="ten")
@click.option("--from", "from_", default="a")
@click.option("-v", "--verbose", count=True)
@click.option("--wide/--narrow", " /-N", default=False)
@click.option("--hidden", hidden=True)
@click.pass_context
def run(ctx, rate, shout, number, from_, verbose, wide, hidden):
    click.echo(rate)


run()
