"""Options in a loop, and by functions of the file."""
import argparse

SIZES = {"width": 64, "depth": 4}


def add_model_args(parser, prefix="model"):
    for name, default in SIZES.items():
        parser.add_argument(f"--{prefix}-{name}", type=int, default=default)


def get_parser(**kwargs):
    parser = argparse.ArgumentParser(**kwargs)
    add_model_args(parser)
    add_model_args(parser, prefix="teacher")
    for flag in ["amp", "compile"]:
        parser.add_argument("--" + flag, action="store_true", help="use " + flag)
    return parser


def main(argv=None):
    args = get_parser(description="x").parse_args(argv)
    return args


if __name__ == "__main__":
    raise SystemExit(main())
