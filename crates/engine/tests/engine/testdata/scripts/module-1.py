"""A package beside it, with modules that import each other."""
import modulepackage.options
from modulepackage import DEPTH, build
from modulepackage.sizes import *

parser = build()
parser.add_argument("--width", type=int, default=WIDTH)
parser.add_argument("--depth", type=int, default=modulepackage.options.DEPTH)
parser.parse_args()
