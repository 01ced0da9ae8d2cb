"""Arguments of a function below a name, and a default that is set."""
from jsonargparse import ArgumentParser, Namespace


def train(rate: float = 0.5, steps: int = 4):
    return rate


def main():
    parser = ArgumentParser()
    parser.add_function_arguments(train)
    args = parser.parse_args()
    train(**args)


if __name__ == "__main__":
    main()
