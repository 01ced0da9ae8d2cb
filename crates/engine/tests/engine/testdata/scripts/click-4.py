import datetime

import click


@click.command()
@click.option("--start", default=lambda: datetime.date.today().isoformat())
@click.option("--lr", default=1e-3)
def main(start, lr):
    pass


main.main()
