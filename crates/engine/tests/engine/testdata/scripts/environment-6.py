"""The variables of the system are set, not read."""
import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["WORKERS"] = "2"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
lr = float(os.environ.get("LR", 0.1))
del os.environ["WORKERS"]
