"""Defaults that the script computes: the tree shows a part only."""
import argparse
import multiprocessing
import platform

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
parser.add_argument("--host", default=platform.node())
args = parser.parse_args()
