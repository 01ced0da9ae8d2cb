"""What takes several values, and types."""
import optparse

p = optparse.OptionParser("x")
p.add_option("--size", default=3, type="long" if False else "int")
p.add_option("--names", nargs=2)
p.add_option("--many", action="append", default=[])
p.add_option("--n", action="store", type="int", default=2 + 2)
p.add_option("--hidden", help=optparse.SUPPRESS_HELP)
o, a = p.parse_args()
