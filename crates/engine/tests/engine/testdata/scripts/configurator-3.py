"""Sampling: it begins with a text of control characters."""
import os
import pickle

import tiktoken
import torch

init_from = 'resume'
start = "\n" # or "<|endoftext|>" or etc. Can also specify a file, use as: "FILE:prompt.txt"
num_samples = 10
temperature = 0.8
top_k = 200
seed = 1337
exec(open('configurator.py').read())
torch.manual_seed(seed)
