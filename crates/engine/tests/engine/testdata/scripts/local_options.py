"""The options of local-1.py and local-2.py."""
import argparse

DEFAULT_LR = 0.1


def make_parser(name):
    parser = argparse.ArgumentParser(name)
    parser.add_argument("--lr", type=float, default=DEFAULT_LR)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def get_args():
    return make_parser("y").parse_args()
