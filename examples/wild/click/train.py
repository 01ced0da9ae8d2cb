import click


@click.command()
@click.option("--lr", default=0.1, help="Learning rate.")
@click.option("--optimizer", type=click.Choice(["sgd", "adam"]), default="sgd")
@click.option("--seed", default=0)
def main(lr, optimizer, seed):
    click.echo(f"final accuracy: {lr + (0.5 if optimizer == 'adam' else 0) + seed}")


main()
