"""A file of defaults that is read before."""
import argparse

import yaml

before = argparse.ArgumentParser(description="config", add_help=False)
before.add_argument("-c", "--config", default="", type=str)
parser = argparse.ArgumentParser(parents=[before])
group = parser.add_argument_group("Optimizer")
group.add_argument("--opt", default="sgd", type=str)
group.add_argument("--momentum", type=float, default=0.9)
group.add_argument("--weight-decay", type=float, default=2e-5)
group.add_argument("--amp", action="store_true", default=False)


def _parse_args():
    known, remaining = before.parse_known_args()
    if known.config:
        with open(known.config) as f:
            parser.set_defaults(**yaml.safe_load(f))
    args = parser.parse_args(remaining)
    return args, yaml.safe_dump(args.__dict__, default_flow_style=False)


def main():
    args, args_text = _parse_args()


if __name__ == "__main__":
    main()
