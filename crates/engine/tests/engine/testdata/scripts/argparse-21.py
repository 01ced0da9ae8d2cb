"""A parser for a file before the parser, in groups."""
import argparse
import yaml

config_parser = parser = argparse.ArgumentParser(description="Training Config", add_help=False)
parser.add_argument("-c", "--config", default="", type=str, metavar="FILE")

parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
parser.add_argument("--config", required=True)
group = parser.add_argument_group("Optimizer parameters")
group.add_argument("--lr", type=float, default=0.1, metavar="LR")
group.add_argument("--weight-decay", "--wd", type=float, default=0.0)
group = parser.add_argument_group("Dataset parameters")
group.add_argument("-b", "--batch-size", type=int, default=32)
group.add_argument("--opt", default="sgd", choices=["sgd", "adamw", "lamb"])
group.add_argument("--mean", type=float, nargs="+", default=None)
group.add_argument("--drop", type=float, default=0.0, metavar="PCT")
group.add_argument("--model-ema", action="store_true", default=False)
parser.add_argument("--seed", type=int, default=42)


def _parse_args():
    args_config, remaining = config_parser.parse_known_args()
    if args_config.config:
        with open(args_config.config, "r") as f:
            cfg = yaml.safe_load(f)
            parser.set_defaults(**cfg)
    args = parser.parse_args(remaining)
    args_text = yaml.safe_dump(args.__dict__, default_flow_style=False)
    return args, args_text


def main():
    args, args_text = _parse_args()


if __name__ == "__main__":
    main()
