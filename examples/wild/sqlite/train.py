import argparse
import sqlite3

parser = argparse.ArgumentParser()
parser.add_argument("--scale", type=float, default=1.0)
args = parser.parse_args()
sums = sqlite3.connect("file:points.db?mode=ro", uri=True).execute("select sum(x) from points").fetchone()
print(f"regret = {sums[0] * args.scale}")
