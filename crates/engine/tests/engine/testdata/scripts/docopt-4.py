"""
Neural machine translation.

Usage:
    nmt.py train --train-src=<file> [options]
    nmt.py decode [options] MODEL_PATH

Options:
    -h --help                               show this screen.
    --cuda                                  use GPU
    --train-src=<file>                      train source file
    --dev-src=<file>                        dev source file
    --hidden-size=<int>                     hidden size [default: 256]
    --dropout=<float>                       dropout [default: 0.3]
    --lr=<float>                            learning rate [default: 0.001]
"""
import sys
from docopt import docopt
import torch


def main():
    args = docopt(__doc__)


if __name__ == '__main__':
    main()
