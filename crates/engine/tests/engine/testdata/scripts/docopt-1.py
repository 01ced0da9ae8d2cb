"""Trains a network.

Usage:
  train.py <data> [options]
  train.py (-h | --help)

Options:
  -h --help            Shows this.
  --lr=<rate>          Learning rate [default: 0.1].
  -b N, --batch N      Size of a batch
                       in rows [default: 32].
  --opt NAME           Optimizer [default: adam].
  --amp                Mixed precision.
  -q                   Quiet.
  -n COUNT             Count [default: 2].
"""
from docopt import docopt

if __name__ == "__main__":
    args = docopt(__doc__, version="1.0")
    print(args)
