"""Gradient descent from a start that the seed shifts, with checkpoints and reports."""

import json
import os
import pathlib

from shape import slope, value

with open(os.environ["SWEEP_PARAMS"]) as file:
    params = json.load(file)
lr, power = params["lr"], params["shape"]["power"]
total = int(os.environ.get("SWEEP_UNTIL", "4"))

x, first = float(pathlib.Path("start/x.txt").read_text()) + int(os.environ["SWEEP_SEED"]) / 8, 1
resume = os.environ.get("SWEEP_RESUME")
if resume:
    state = json.loads(pathlib.Path(resume).read_text())
    x, first = state["x"], state["step"] + 1


def report(line):
    with open(os.environ["SWEEP_REPORT"], "a") as file:
        file.write(json.dumps(line) + "\n")


for step in range(first, total + 1):
    x -= lr * slope(x, power)
    report({"step": step, "total": 4, "loss": value(x, power), "distance": abs(x), "step_ms": 2})
    name = f"step-{step}.json"
    checkpoint = pathlib.Path(os.environ["SWEEP_SCRATCH"], name)
    checkpoint.write_text(json.dumps({"x": x, "step": step}))
    report({"checkpoint": name})
os.mkdir("end")
pathlib.Path("end/x.txt").write_text(f"{x!r}\n")
print(f"the end is at {x:.6f}")
