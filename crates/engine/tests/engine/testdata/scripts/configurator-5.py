"""The file is read by a path of the script, and compiled."""
import os
from pathlib import Path

lr, width = 1e-3, 64
half = True
betas = (0.9, 0.99)
name = None
exec(compile((Path(__file__).parent / "configurator.py").read_text(), "configurator.py", "exec"))
