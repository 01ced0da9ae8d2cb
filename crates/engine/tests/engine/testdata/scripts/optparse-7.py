"""Options in a loop."""
from optparse import OptionParser

DEFAULTS = {"lr": 1e-3, "momentum": 0.9}
parser = OptionParser()
for name, value in sorted(DEFAULTS.items()):
    parser.add_option("--" + name, type="float", default=value, help="the %s" % name)
if __name__ == "__main__":
    opts, _ = parser.parse_args()
