"""Größen.

Usage:
  größen.py <data> [--width=<w>] [--depth=<d>] [-v]

Options:
  --width=<w>    Breite [default: 64]
  --depth=<d>    Tiefe [default: 2]
  -v, --verbose  mehr
"""
from docopt import docopt
if __name__ == "__main__": print(docopt(__doc__))
