"""The parser is a global one, and filled by another function."""
import optparse

PARSER = optparse.OptionParser()


def define():
    PARSER.add_option("--steps", type="int", default=100)
    PARSER.add_option("--lr", type="float", default=0.1)


def run():
    define()
    options, _ = PARSER.parse_args()
    return options


if __name__ == "__main__":
    run()
