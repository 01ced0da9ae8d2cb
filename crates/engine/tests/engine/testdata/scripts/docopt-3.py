"""Train a model.

Usage:
    train.py [options] <data>
    train.py (-h | --help)

Options:
    -h --help                  Show this screen.
    --lr=<float>               Learning rate [default: 1e-3].
    --epochs=<int>             Number of epochs [default: 10]
    -b --batch-size=<int>      Size of a batch [default: 32]
    --cuda                     Use a GPU
    --seed=<int>               Seed [default: 42]
"""
from docopt import docopt

if __name__ == "__main__":
    args = docopt(__doc__)
    lr = float(args["--lr"])
