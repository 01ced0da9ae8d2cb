import sys

from pkg.model import loss

print("loss:", loss(float(sys.argv[sys.argv.index("--lr") + 1])))
