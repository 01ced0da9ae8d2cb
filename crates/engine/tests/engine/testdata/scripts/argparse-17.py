"""Parents, and defaults that are set later."""
import argparse
import os
from pathlib import Path

ROOT = Path("data")
common = argparse.ArgumentParser(add_help=False)
common.add_argument("--data-dir", type=Path, default=ROOT)
common.add_argument("--seed", type=int, default=os.environ.get("NO_SUCH_SEED", 0))


def parse():
    parser = argparse.ArgumentParser(parents=[common], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("-v", "--verbose", default=False, action="store_true")
    parser.set_defaults(lr=0.001)
    args, unknown = parser.parse_known_args()
    return args


if __name__ == "__main__":
    parse()
