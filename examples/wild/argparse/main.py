"""A training loop as in pytorch/examples: argparse, and a log for people."""
import argparse

parser = argparse.ArgumentParser(description="MNIST example")
parser.add_argument("--batch-size", type=int, default=64, metavar="N", help="input batch size")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=1.0, metavar="LR")
parser.add_argument("--gamma", type=float, default=0.7, metavar="M")
parser.add_argument("--no-cuda", action="store_true", default=False)
parser.add_argument("--seed", type=int, default=1, metavar="S")
args = parser.parse_args()
points = [float(line) for line in open("../data/points.txt")]
for epoch in range(1, args.epochs + 1):
    for step, point in enumerate(points):
        loss = point * args.lr / epoch + args.seed / 10
        print(f"Train Epoch: {epoch} [{step}/{len(points)} ({100 * step // len(points)}%)]\tLoss: {loss:.6f}")
