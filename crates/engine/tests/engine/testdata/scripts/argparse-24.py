"""The script reads the options before the imports that take long."""
import argparse
import os
import sys
import warnings
warnings.filterwarnings("ignore")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def get_args_parser():
    parser = argparse.ArgumentParser("Set transformer detector", add_help=False)
    parser.add_argument("--lr", default=1e-1, type=float)
    parser.add_argument("--momentum", default=0.9, type=float)
    return parser


async def train(args):
    pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser("DETR training and evaluation script", parents=[get_args_parser()])
    args = parser.parse_args()
    if args.lr:
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)
