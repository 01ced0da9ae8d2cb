"""The text is a variable."""
import docopt

USAGE = """Agents.

Usage:
  agent [--gamma=G] [--env=NAME] [--render] [OUT]

Options:
  --gamma=G    Discount, as in
               the paper [default: 0.99].
  --env=NAME   Environment [default: CartPole-v1].
  --render     Shows it.
"""


def main(argv=None):
    args = docopt.docopt(USAGE, argv)
    return args


main()
