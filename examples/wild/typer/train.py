import typer


def main(lr: float = 0.1, layers: int = 2, random_state: int = 0):
    print(f"rmse={lr * layers + random_state}")


typer.run(main)
