"""A small language model."""
import math
import os

out_dir = "out"
eval_interval = 2000
learning_rate = 6e-4
max_iters = 600_000
min_lr = learning_rate / 10
betas = (0.9, 0.95)
compile = True
backend = "nccl"
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec(open("configurator.py").read())
config = {k: globals()[k] for k in config_keys}
