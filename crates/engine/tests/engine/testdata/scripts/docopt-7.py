"""Two files.

Usage: convert.py [--lr=LR] INPUT OUTPUT

Options:
  --lr=LR  Rate [default: 0.1]
"""
from docopt import docopt


class App:
    def run(self):
        self.args = docopt(__doc__, help=True)


App().run()
