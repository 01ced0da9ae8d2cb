"""A parser of a module, to which the script adds."""
import local_options as options
from localpackage import sizes

parser = options.make_parser("x")
parser.add_argument("--width", type=int, default=sizes.WIDTH)
args = parser.parse_args()
