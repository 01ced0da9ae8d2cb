"""A class that derives from the parser, and `super()`."""
import argparse
import sys


class ArgumentParser(argparse.ArgumentParser):
    def __init__(self, *args, headless=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.add_argument("--num_envs", type=int, default=16)
        self.add_argument("--headless", action="store_true", default=headless)

    def error(self, message):
        sys.stderr.write("error: %s\n" % message)
        self.print_help()
        sys.exit(2)


class Base:
    def options(self, parser):
        parser.add_argument("--experiment", default="")
        return parser


class Train(Base):
    def options(self, parser):
        parser = super().options(parser)
        parser.add_argument("--total-steps", type=float, default=1e6)
        parser.add_argument("--lr", type=float, default=self.lr)
        return parser

    @property
    def lr(self):
        return 1e-3


if __name__ == "__main__":
    parser = Train().options(ArgumentParser(description="x"))
    args = parser.parse_args()
