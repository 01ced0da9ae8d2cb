"""A trainer whose parameters are in a file, which the command line names."""

import argparse

import yaml

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--steps", type=int, default=2)
args = parser.parse_args()
with open(args.config) as file:
    config = yaml.safe_load(file)
for step in range(args.steps):
    loss = config["optimizer"]["lr"] * sum(config["model"]["widths"]) * (step + 1) + config["seed"]
    print(f"step {step} | train loss {loss:.2f}")
