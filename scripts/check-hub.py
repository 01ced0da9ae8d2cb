#!/usr/bin/env python3
"""Loads a folder in the Hub's layout as Hugging Face transformers does, and prints its logits.

usage: check-hub.py FOLDER ID,ID,…[;ID,ID,…]

Standard output is one line of JSON: for each sequence of token ids, for each position, the logits `[vocab]`.
It fails if a tensor of the network is missing from the file, or one in the file has no place in the network.
"""

import json
import sys

import torch
import transformers

folder, sequences = sys.argv[1:]
ids = torch.tensor([[int(token) for token in sequence.split(",")] for sequence in sequences.split(";")])
network, report = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
    if report.get(kind):
        sys.exit(f"{kind}: {report[kind]}")
network.eval()
with torch.no_grad():
    json.dump(network(ids).logits.tolist(), sys.stdout)
print()
