#!/usr/bin/env python3
"""Computes with PyTorch how far shorter formats take a GPT-2 in the Hub's layout from single precision: for `bf16`, `f16` and
`mixed` (matrix products and attention in bfloat16) the largest difference of a logit, of what a block gives for the same
input, and of a gradient, each as a part of the largest number of its tensor; the worst block's, and the worst parameter's.
Prints the numbers that crates/lab/tests/parity.rs holds the program to:

    python3 scripts/precision-errors.py crates/lab/tests/golden/gpt2
"""

import json
import struct
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

HEADS, LENGTH = 4, 64


def load(folder):
    data = Path(folder, "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    weights = {}
    for name, info in header.items():
        first, end = info["data_offsets"]
        tensor = torch.frombuffer(bytearray(data[8 + size + first : 8 + size + end]), dtype=torch.float32)
        weights[name.removeprefix("transformer.")] = tensor.reshape(info["shape"])
    return weights


class Network:
    def __init__(self, weights, activations, products):
        self.weights, self.activations, self.products = weights, activations, products

    def get(self, name):
        return self.weights[name].to(self.activations)

    def norm(self, x, name):
        return F.layer_norm(x, [x.shape[-1]], self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def linear(self, x, name):
        product = x.to(self.products) @ self.get(f"{name}.weight").to(self.products)
        return product.to(self.activations) + self.get(f"{name}.bias")

    def attention(self, x, name):
        parts = self.linear(x, f"{name}.c_attn").to(self.products).split(x.shape[1], 1)
        query, key, value = (part.view(LENGTH, HEADS, -1).transpose(0, 1) for part in parts)
        score = (query * query.shape[-1] ** -0.5) @ key.transpose(1, 2)
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        gathered = score.masked_fill(hidden, -torch.inf).softmax(-1) @ value
        return self.linear(gathered.transpose(0, 1).reshape(x.shape).to(self.activations), f"{name}.c_proj")

    def embed(self, tokens):
        return self.get("wte.weight")[tokens] + self.get("wpe.weight")

    def block(self, x, index):
        x = x + self.attention(self.norm(x, f"h.{index}.ln_1"), f"h.{index}.attn")
        inner = F.gelu(self.linear(self.norm(x, f"h.{index}.ln_2"), f"h.{index}.mlp.c_fc"), approximate="tanh")
        return x + self.linear(inner, f"h.{index}.mlp.c_proj")

    def head(self, x):
        product = self.norm(x, "ln_f").to(self.products) @ self.get("wte.weight").to(self.products).t()
        return product.to(self.activations)


def observe(weights, activations, products, scale, inputs=None):
    for weight in weights.values():
        weight.grad = None
        weight.requires_grad_()
    network = Network(weights, activations, products)
    tokens = torch.tensor([(index * index + 7) % 256 for index in range(LENGTH + 1)])
    x = network.embed(tokens[:-1])
    modules = [x]
    for index in range(2):
        given = x if inputs is None else inputs[index].to(activations)
        modules.append(network.block(given, index))
        x = network.block(x, index)
    logits = network.head(x)
    (F.cross_entropy(logits.float(), tokens[1:]) * scale).backward()
    gradients = {name: weight.grad / scale for name, weight in weights.items()}
    return logits.detach().float(), [module.detach().float() for module in modules], gradients


def error(reference, found):
    return ((reference - found).abs().max() / reference.abs().max()).item()


weights = load(sys.argv[1])
logits, modules, gradients = observe(weights, torch.float32, torch.float32, 1.0)
for word, activations, products, scale in (
    ("mixed", torch.float32, torch.bfloat16, 1.0),
    ("bf16", torch.bfloat16, torch.bfloat16, 1.0),
    # The loss's scale is the largest power of two up to 65536 with which the gradients are finite.
    ("f16", torch.float16, torch.float16, 65536.0),
):
    while True:
        found = observe(weights, activations, products, scale, modules)
        if all(gradient.isfinite().all() for gradient in found[2].values()):
            break
        scale /= 2
    worst_block = max(error(*pair) for pair in zip(modules, found[1]))
    by_name = {name: error(gradient, found[2][name]) for name, gradient in gradients.items()}
    print(f"{word}: logits {error(logits, found[0]):.2e}, blocks {worst_block:.2e}, gradients {max(by_name.values()):.2e}", end="")
    print(f" ({max(by_name, key=by_name.get)}), loss scale {scale:.0f}")
