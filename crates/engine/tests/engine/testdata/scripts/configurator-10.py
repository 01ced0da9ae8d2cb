"""A file that is executed and changes nothing by the command line; the parser counts."""
import argparse

exec(open("tyro_agents.py").read())
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
