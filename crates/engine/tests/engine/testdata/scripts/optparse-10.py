"""A default of the machine."""
import os
from optparse import OptionParser

parser = OptionParser()
parser.add_option("--lr", type="float", default=0.1)
parser.add_option("--workers", type="int", default=os.cpu_count())
options, args = parser.parse_args()
