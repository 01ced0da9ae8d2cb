"""The device decides a default, in a branch."""
import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=float(os.environ.get("NO_SUCH_VARIABLE", "0.1")))
if os.path.exists("/no/such/folder"):
    parser.add_argument("--never", type=int, default=1)
device = "cuda" if os.path.exists("/dev/nvidia0") else "cpu"
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--scale", type=int, choices=range(1, 4), default=2)
args = parser.parse_args()
