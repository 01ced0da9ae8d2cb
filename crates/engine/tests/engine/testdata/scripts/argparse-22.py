"""Python 3.12 and later read all of it: types in brackets, a match, nested quotes."""
import argparse
import tomllib
from typing import NamedTuple


class Default(NamedTuple):
    lr: float = 1e-3
    hidden: int = 256


DEFAULT = Default()
LAYERS, GAMMA = 2, 0.99


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(f"{'train'}")
    p.add_argument("--lr", type=float, default=DEFAULT.lr)
    p.add_argument("--hidden", type=int, default=DEFAULT.hidden)
    p.add_argument("--n-layer", type=int, default=LAYERS)
    p.add_argument("--gamma", type=float, default=GAMMA)
    p.add_argument("--rng-seed", type=int, default=7)
    if (name := "CartPole-v1"):
        p.add_argument("--env", default=name)
    match argv:
        case None:
            return p.parse_args()
        case _:
            return p.parse_args(argv)


if __name__ == "__main__":
    print(parse())
