"""Options of a list, in a function."""
import optparse
import sys


def main(argv=None):
    option_list = [
        optparse.make_option("--gamma", type="float", default=0.99),
        optparse.make_option("--hidden", type="int", default=64),
    ]
    parser = optparse.OptionParser(option_list=option_list)
    parser.add_option("-o", "--out")
    opts, args = parser.parse_args(argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
