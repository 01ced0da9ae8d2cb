#!/usr/bin/env python3
"""Writes the reference vectors of pruning by gradients.

    python scripts/prune-vectors.py crates/lab/tests/golden

The environment needs PyTorch 2.5 or later, transformers and safetensors; the vectors were written with PyTorch 2.15. All numbers are
computed in double precision from weights in single precision. The networks are those of `llama-vectors.py`, in plain PyTorch
operations.

OUT/pruning.json  of a GPT-2 and a Llama, by method: of each matrix the number of kept weights and a projection of the mask, and the
                  loss before each step of AdamW with that mask.
    rounds        a lottery ticket (Frankle and Carbin 2019): the network is trained for eight steps, the 30 % with the smallest
                  magnitudes of all matrices go, and it is trained again from its first weights; then 56 % go in the same way.
    snip          `|w g|` at the start, over two batches, and the 60 % with the lowest scores of all matrices go (Lee et al. 2019).
    rigl          60 % of each matrix are pruned from the start, those with the lowest of given numbers. Before the steps 3, 6 and 9 of
                  twelve, counted from 0, a share of each matrix is replaced, which falls as half a cosine from 0.3 to 0 at step 10; these
                  steps change no other weights (Evci et al. 2020, algorithm 1).
"""

import importlib.util
import json
import math
import pathlib
import sys

import torch
from torch.nn import functional as F

spec = importlib.util.spec_from_file_location("llama_vectors", pathlib.Path(__file__).with_name("llama-vectors.py"))
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)
numbers = base.numbers

STEPS, SPARSITY, ROUNDS, MASK = 8, 0.6, (0.3, 0.56), 1
# Relative distance of scores on both sides of a threshold, so that rounding to single precision decides nothing.
GAP = 1e-5


def batch():
    ids = torch.arange(base.BATCH * base.LENGTH).reshape(base.BATCH, base.LENGTH)
    ids = (ids * ids + 7 * ids) % base.VOCAB
    return ids, (ids + 3) % base.VOCAB


def loss(p, c, ids, targets):
    return F.cross_entropy(base.forward(p, c, ids).flatten(0, 1), targets.flatten())


def leaves(c, start=None):
    start = start or base.weights(c)
    return {name: value.detach().clone().requires_grad_() for name, value in start.items()}


def matrices(p):
    return [name for name, value in p.items() if value.dim() == 2 and name.startswith("h.")]


def split(scores, lowest):
    """A mask of 0 for the `lowest` lowest of `scores`."""
    flat = scores.flatten()
    order = flat.argsort()
    if 0 < lowest < len(flat):
        low, high = flat[order[lowest - 1]], flat[order[lowest]]
        assert (high - low) > GAP * high.abs(), (low, high)
    mask = torch.ones_like(flat)
    mask[order[:lowest]] = 0
    return mask.reshape(scores.shape)


def over_all(scores, sparsity):
    """Masks by name, from a threshold that all matrices share."""
    total = sum(score.numel() for score in scores.values())
    mask = split(torch.cat([score.flatten() for score in scores.values()]), int(sparsity * total))
    parts = mask.split([score.numel() for score in scores.values()])
    return {name: part.reshape(scores[name].shape) for name, part in zip(scores, parts)}


def described(masks):
    return {n: [int(m.sum()), (m.flatten() @ numbers("projection", m.numel())).item()] for n, m in masks.items()}


def apply(p, masks):
    with torch.no_grad():
        for name, mask in masks.items():
            p[name].mul_(mask)


def adamw(p):
    return torch.optim.AdamW(p.values(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def masked_steps(p, c, masks, steps=STEPS):
    """The losses before each step of a training whose weights and gradients are masked."""
    losses, optimizer = [], adamw(p)
    apply(p, masks)
    for _ in range(steps):
        optimizer.zero_grad()
        found = loss(p, c, *batch())
        found.backward()
        losses.append(found.item())
        for name, mask in masks.items():
            p[name].grad.mul_(mask)
        optimizer.step()
        apply(p, masks)
    return losses


def snip(c):
    p = leaves(c)
    ids, targets = batch()
    # The mean over two batches of a sequence each.
    (sum(loss(p, c, ids[i : i + 1], targets[i : i + 1]) for i in range(2)) / 2).backward()
    masks = over_all({name: (p[name] * p[name].grad).detach().abs() for name in matrices(p)}, SPARSITY)
    return {"masks": described(masks), "losses": masked_steps(leaves(c), c, masks)}


def rounds(c):
    p, found = leaves(c), []
    masked_steps(p, c, {})
    for sparsity in ROUNDS:
        masks = over_all({name: p[name].detach().abs() for name in matrices(p)}, sparsity)
        p = leaves(c)
        found.append({"masks": described(masks), "losses": masked_steps(p, c, masks)})
    return found


def rigl(c, steps=12, every=3, end=10):
    p = leaves(c)
    optimizer, losses = adamw(p), []
    masks = {}
    for name in matrices(p):
        count = p[name].numel()
        masks[name] = split(numbers(f"{name}.{MASK}", count), int(SPARSITY * count)).reshape(p[name].shape)
    apply(p, masks)
    for step in range(steps):
        optimizer.zero_grad()
        found = loss(p, c, *batch())
        found.backward()
        losses.append(found.item())
        if step > 0 and step % every == 0 and step < end:
            share = 0.3 / 2 * (1 + math.cos(math.pi * step / end))
            for name, mask in masks.items():
                count = int(share * int(mask.sum()))
                assert count > 0
                # Pruned weights are not dropped again, and kept ones are not grown.
                sizes = torch.where(mask > 0, p[name].detach().abs(), math.inf)
                remaining = mask * split(sizes, count)
                gradients = torch.where(remaining > 0, -math.inf, p[name].grad.abs())
                masks[name] = remaining + 1 - split(-gradients, count)
                state = optimizer.state[p[name]]
                with torch.no_grad():
                    for values in (p[name], state["exp_avg"], state["exp_avg_sq"]):
                        values.mul_(remaining)
        else:
            for name, mask in masks.items():
                p[name].grad.mul_(mask)
            optimizer.step()
            apply(p, masks)
    return {"masks": described(masks), "losses": losses}


METHODS = {"snip": snip, "rounds": rounds, "rigl": rigl}


def main():
    cases = {}
    for name, c in {"gpt2": base.GPT2, "llama": base.LLAMA}.items():
        settings = dict({key: value for key, value in c.items() if key != "hidden"}, mlp_hidden=c["hidden"])
        cases[name] = {"with": settings, **{method: function(c) for method, function in METHODS.items()}}
    (pathlib.Path(sys.argv[1]) / "pruning.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
