"""Commands."""
import argparse


def train(args):
    print(args)


def add_common(parser):
    parser.add_argument("--seed", type=int, default=0)
    return parser


parser = argparse.ArgumentParser()
sub = parser.add_subparsers(dest="command", required=True)
one = add_common(sub.add_parser("train", help="trains"))
one.add_argument("--lr", type=float, default=0.1)
one.set_defaults(func=train)
two = add_common(sub.add_parser("eval"))
two.add_argument("checkpoint")
args = parser.parse_args()
args.func(args)
