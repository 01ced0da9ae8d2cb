from .options import DEPTH, build
