#!/usr/bin/env python3
"""A simulation from the time before argparse, which takes letters."""

from optparse import OptionParser


def main():
    parser = OptionParser(usage="%prog [options]")
    parser.add_option("-t", "--temperature", type="float", default=1.0, help="[default: %default]")
    parser.add_option("-n", type="int", default=10, help="number of particles")
    parser.add_option("--seed", type="int", default=0)
    parser.add_option("-q", "--quiet", action="store_true", default=False)
    options, _ = parser.parse_args()
    print("energy =", options.temperature * options.n + options.seed)
    print(f"error: {options.temperature / options.n:.3f}")


if __name__ == "__main__":
    main()
