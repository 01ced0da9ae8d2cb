"""Policy gradients: truth values as texts, and a function that reads them."""
import argparse
import os
import time
from distutils.util import strtobool


def truth(text):
    if isinstance(text, bool):
        return text
    if text.lower() in ("yes", "true", "t", "1"):
        return True
    if text.lower() in ("no", "false", "f", "0"):
        return False
    raise argparse.ArgumentTypeError("a truth value is expected")


def parse_args():
    # fmt: off
    parser = argparse.ArgumentParser()
    parser.add_argument("--exp-name", type=str, default=os.path.basename(__file__).rstrip(".py"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anneal-lr", type=truth, default=True, nargs="?", const=True)
    parser.add_argument("--cuda", type=truth, nargs="?", const=True, default=False)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=128)
    parser.add_argument("--target-kl", type=float, default=None)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    args = parser.parse_args()
    args.batch_size = int(args.num_envs * args.num_steps)
    # fmt: on
    return args


if __name__ == "__main__":
    args = parse_args()
    run_name = f"{args.exp_name}__{args.seed}__{int(time.time())}"
