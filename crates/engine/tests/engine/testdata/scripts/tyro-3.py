from typing import Literal

import tyro


def main(lr: float = 0.1, /, *, steps: int = 100, mode: Literal["fast", "slow"] = "fast", verbose: bool = False) -> None:
    """Trains."""
    print(lr, steps)


if __name__ == "__main__":
    tyro.cli(main)
