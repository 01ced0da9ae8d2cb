"""Commands in functions, each with what runs it."""
import argparse


def add_pretrain(commands, parent):
    parser = commands.add_parser("pretrain", help="masked images", parents=[parent])
    parser.add_argument("--mask-ratio", default=.75, type=float)
    parser.add_argument("--norm-pix-loss", action="store_true")
    parser.set_defaults(func=pretrain, norm_pix_loss=False)


def add_finetune(commands, parent):
    parser = commands.add_parser("finetune", parents=[parent])
    parser.add_argument("--drop-path", type=float, default=0.1)
    parser.add_argument("--model", choices=("tiny", "base"), default="base")
    parser.set_defaults(func=finetune)


def pretrain(args):
    pass


def finetune(args):
    pass


def main():
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--output", required=True)
    parser = argparse.ArgumentParser(prog="mae")
    commands = parser.add_subparsers(dest="command", required=True)
    add_pretrain(commands, parent)
    add_finetune(commands, parent)
    args = parser.parse_args()
    args.func(args)


if __name__ == "__main__":
    main()
