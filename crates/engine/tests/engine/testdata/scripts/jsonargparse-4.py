"""A function with a description of its arguments."""
from typing import List, Literal, Optional

from jsonargparse import auto_cli


def main(data: str, lr: float = 0.1, name: str = "run", opt: Literal["adam", "sgd"] = "adam", layers: List[int] = [64, 64], amp: bool = True, limit: Optional[int] = None):
    """Trains.

    Args:
        lr: The rate.
    """


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
