"""Usage: program.py [--speed=<kn>] [--moored | --drifting] [-q] [-n NUMBER]

  --speed=<kn>  Speed in knots [default: 10].
  --moored      Moored mine.
  --drifting    Drifting mine.
  -q            Quiet.
  -n NUMBER     Number [default: 3].
"""
from docopt import docopt

print(docopt(__doc__, version="Program 2.0"))
