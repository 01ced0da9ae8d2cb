import sys
from ast import literal_eval

for arg in sys.argv[1:]:
    key, val = arg.split("=")
    globals()[key[2:]] = literal_eval(val)
