"""Values are changed before the file is executed, by conditions of the script."""
import sys

lr = 1.0
steps = 5
name = "a" if sys.version_info >= (3,) else "b"
if lr > 0.5:
    lr = 0.1
for _ in range(1):
    steps *= 2
exec(open("configurator.py").read())
