from optparse import OptionGroup, OptionParser

parser = OptionParser(usage="usage: %prog [options]")
parser.add_option("-l", "--lr", type="float", dest="lr", default=0.1, help="the rate [default: %default]")
parser.add_option("-b", "--batch-size", type=int, default=32)
parser.add_option("--opt", type="choice", choices=["sgd", "adam"], default="sgd")
parser.add_option("-q", "--quiet", action="store_false", dest="verbose", default=True)
parser.add_option("-n", type="int", default=3)
parser.add_option("--tag", action="append")
parser.add_option("--betas", nargs=2, type="float")
group = OptionGroup(parser, "More", "about")
group.add_option("--seed", type="int", default=0)
parser.add_option_group(group)
options, args = parser.parse_args()
