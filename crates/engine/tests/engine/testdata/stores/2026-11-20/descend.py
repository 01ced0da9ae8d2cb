"""Gradient descent on a parabola, from a start that the seed shifts."""

import argparse
import json
import os
import pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--steps", type=int, required=True)
args = parser.parse_args()

x = float(pathlib.Path("start/x.txt").read_text()) + int(os.environ["SWEEP_SEED"]) / 8
best = (0, x * x)
with open("path.csv", "w") as path:
    print("step,x", file=path)
    for step in range(1, args.steps + 1):
        x -= args.lr * 2 * x
        best = min(best, (step, x * x), key=lambda pair: pair[1])
        print(f"{step},{x!r}", file=path)
os.mkdir("end")
pathlib.Path("end/x.txt").write_text(f"{x!r}\n")
pathlib.Path("metrics.json").write_text(
    json.dumps({"loss": x * x, "distance": abs(x), "best": {"step": best[0]}})
)
print(f"progress {args.steps}/{args.steps}")
print(f"the end is at {x:.6f}")
