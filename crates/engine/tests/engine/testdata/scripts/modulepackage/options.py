import argparse

from . import sizes

DEPTH = 2


def build():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=sizes.SEED)
    return parser
