"""The text is put together."""
from docopt import docopt

NAME = "train.py"
doc = f"""Usage: {NAME} [--lr=<lr>]

Options:
  --lr=<lr>  Rate [default: {0.1}]
"""
docopt(doc)
