"""Usage: run.py train [--lr=<x>] [--seed=<n>]
          run.py test <checkpoint>
"""
import docopt

args = docopt.docopt(__doc__)
