"""A generative network with required options and a position."""
from argparse import ArgumentParser, ArgumentDefaultsHelpFormatter
import os
import random

import numpy as np

parser = ArgumentParser(formatter_class=ArgumentDefaultsHelpFormatter)
parser.add_argument("dataset", choices=["cifar10", "lsun", "fake"])
parser.add_argument("--dataroot", required=False, default=os.path.join("data", "images"))
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--batchSize", type=int, default=64)
parser.add_argument("--imageSize", type=int, default=64)
parser.add_argument("--nz", type=int, default=100, help="size of the latent vector")
parser.add_argument("--lr", type=float, default=0.0002)
parser.add_argument("--beta1", type=float, default=0.5)
parser.add_argument("--netG", default="")
parser.add_argument("--manualSeed", type=int)
parser.add_argument("--classes", default="bedroom,tower")
opt = parser.parse_args()
print(opt)
random.seed(opt.manualSeed)
