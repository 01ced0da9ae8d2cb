"""Prints options, counts, and takes letters of the same name."""
import optparse

parser = optparse.OptionParser(conflict_handler="resolve")
parser.add_option("-T", "--temp", type="float", default=1.5)
parser.add_option("-v", "--verbose", action="count", default=0)
parser.add_option("--eta", type="float", default=.5)
options, arguments = parser.parse_args()
if len(arguments) > 3:
    parser.error("too many")
