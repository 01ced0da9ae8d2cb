"""Groups in groups, in other order."""
import click


@click.group(invoke_without_command=True)
@click.pass_context
def main(ctx):
    ctx.ensure_object(dict)


@click.group()
def models():
    pass


@click.command()
@click.option("--lr", default=.1)
@click.option("--width", default=64)
def fit(lr, width):
    pass


@main.command()
@click.option("--top", default=3)
def report(top):
    pass


models.add_command(fit)
main.add_command(models)

if __name__ == "__main__":
    main()
