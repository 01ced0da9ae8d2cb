"""A parser that is passed to code of another package: the tree shows a part only."""
import argparse
import logging

parser = argparse.ArgumentParser(fromfile_prefix_chars="@")
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--betas", type=lambda text: tuple(map(float, text.split(","))), default=(0.9, 0.95))
parser.add_argument("--flash", type=lambda text: text == "True", default=True)
parser.add_argument("--bias", type=bool, default=False)
parser.add_argument("--hidden", help=argparse.SUPPRESS)
logging.debug("%s", parser)
args = parser.parse_args()
