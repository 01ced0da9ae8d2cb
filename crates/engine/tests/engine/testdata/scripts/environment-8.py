"""Values of several kinds, and names that are computed."""
import os

for name in ("A", "B"):
    os.environ.get("PREFIX_" + name)
steps = int(os.environ.get("STEPS", default=10))
name = os.environ.get("NAME", "x")
verbose = os.environ.get("VERBOSE", "false").lower() in ("1", "true")
