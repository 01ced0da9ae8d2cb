"""Functions and classes that add options to a parser of another function."""
import argparse

ARCHS = {"transformer": None, "lstm": None}
OPTIMIZERS = {"adam": 1, "nag": 2}


class Model:
    @staticmethod
    def add_args(parser):
        for side in ("encoder", "decoder"):
            parser.add_argument(f"--{side}-layers", type=int, default=6)
        parser.add_argument("--share-all-embeddings", action="store_true")


class Criterion:
    @classmethod
    def add_args(cls, parser):
        parser.add_argument("--label-smoothing", default=0.0, type=float)


def get_training_parser(default_task="translation"):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    group = parser.add_argument_group("Model configuration")
    group.add_argument("--arch", "-a", default="transformer", choices=ARCHS.keys())
    parser.add_argument("--seed", default=1, type=int)
    add_optimization_args(parser)
    Model.add_args(parser)
    Criterion.add_args(parser)
    return parser


def add_optimization_args(parser):
    group = parser.add_argument_group("optimization")
    group.add_argument("--optimizer", default="adam", choices=sorted(OPTIMIZERS))
    group.add_argument("--lr", "--learning-rate", default=[0.25], nargs="+", type=float)
    return group


def cli_main(modify_parser=None):
    parser = get_training_parser()
    args = parser.parse_args()


if __name__ == "__main__":
    cli_main()
