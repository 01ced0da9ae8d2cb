"""A device by what there is, after the parser."""
from __future__ import print_function

import argparse

import torch
from torch import nn, optim

parser = argparse.ArgumentParser(description="VAE")
parser.add_argument("--batch-size", type=int, default=128, metavar="N", help="size (default: 128)")
parser.add_argument("--epochs", type=int, default=10, metavar="N")
parser.add_argument("--no-mps", action="store_true", default=False)
parser.add_argument("--seed", type=int, default=1, metavar="S")
parser.add_argument("--log-interval", type=int, default=10)
args = parser.parse_args()
use_mps = not args.no_mps and torch.backends.mps.is_available()
torch.manual_seed(args.seed)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 400)


model = VAE().to("cpu")
