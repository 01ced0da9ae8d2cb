"""Defaults that are set, and a group."""
from optparse import OptionGroup, OptionParser


class Options:
    def __init__(self):
        self.parser = OptionParser(add_help_option=True)
        group = OptionGroup(self.parser, "Model", "text")
        group.add_option("--lr", type="float")
        self.parser.add_option("--batch", type="int")
        self.parser.add_option_group(group)
        self.parser.add_option("-v", "--verbose", action="store_true")
        self.parser.set_defaults(batch=10, lr=0.2)

    def parse(self):
        return self.parser.parse_args()


if __name__ == "__main__":
    Options().parse()
