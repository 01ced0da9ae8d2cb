# -*- coding: utf-8 -*-
"""As scripts were written before argparse."""
from __future__ import print_function
from optparse import OptionParser

usage = "usage: %prog [options] arg"
parser = OptionParser(usage=usage, version="%prog 1.0")
parser.add_option("-l", "--lr", dest="lr", type="float", default=0.1, help="rate [default: %default]", metavar="LR")
parser.add_option("--epochs", type=int, default=5)
parser.add_option("-a", "--arch", type="choice", choices=["resnet", "vgg"], default="vgg")
parser.add_option("--save", action="store_true", dest="save", default=False)
parser.add_option("-k", type="int", default=3)
parser.add_option("--no-cuda", action="store_false", dest="cuda", default=True)
parser.add_option("--seed", type="int", default=0)
(options, args) = parser.parse_args()
