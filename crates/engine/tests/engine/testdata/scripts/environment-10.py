"""A parser takes its defaults from the environment: the parser counts."""
import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=float(os.environ.get("NO_SUCH_RATE", "0.1")))
data = os.environ.get("DATA", "data")
args = parser.parse_args()
