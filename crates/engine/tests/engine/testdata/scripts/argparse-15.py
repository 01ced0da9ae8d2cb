"""A default parser of a function, and a remainder of overrides."""
import argparse
import sys

from detectron2.config import get_cfg
from detectron2.engine import launch


def default_argument_parser(epilog=None):
    parser = argparse.ArgumentParser(epilog=epilog or f"Examples: {sys.argv[0]} --num-gpus 8", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config-file", default="", metavar="FILE", help="path to config file")
    parser.add_argument("--num-gpus", type=int, default=1, help="number of gpus *per machine*")
    parser.add_argument("--eval-only", action="store_true")
    parser.add_argument("opts", help="Modify config options at the end of the command.".strip(), default=[], nargs=argparse.REMAINDER)
    return parser


def setup(args):
    cfg = get_cfg()
    cfg.merge_from_file(args.config_file)
    cfg.merge_from_list(args.opts)
    return cfg


if __name__ == "__main__":
    args = default_argument_parser().parse_args()
    launch(setup, args.num_gpus, args=(args,))
