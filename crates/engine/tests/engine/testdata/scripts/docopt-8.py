"""Usage:
  tool [--alpha A] [--names LIST]

Options:
  --alpha A     Weight [default: 0.5]
  --names LIST  Names [default: a,b]
"""
import docopt as d

args = d.docopt(__doc__)
