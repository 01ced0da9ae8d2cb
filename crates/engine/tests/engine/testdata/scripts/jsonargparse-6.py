"""A class, whose methods are commands."""
from jsonargparse import CLI


def fit(epochs: int = 3):
    print(epochs)


def score(split: str = "val"):
    print(split)


if __name__ == "__main__":
    CLI([fit, score])
