#!/usr/bin/env python3
"""Writes the reference vectors of GPTQ and SparseGPT.

    python scripts/surgery-vectors.py crates/lab/tests/golden

The environment needs PyTorch 2.5 or later, transformers and safetensors; the vectors were written with PyTorch 2.15. All numbers are
computed in double precision from weights in single precision. The networks are those of `llama-vectors.py`, in plain PyTorch
operations. Both methods are written as in the papers (Frantar et al. 2022, algorithm 1; Frantar and Alistarh 2023, algorithm 1): column by
column, with the Cholesky factor of the inverse of the Hessian, which is computed as an inverse. SparseGPT agrees with the authors' program
(github.com/IST-DASLab/sparsegpt) in double precision to 1e-12 of the weights, if this prunes the scores below its threshold: it prunes the
one at the threshold, too.

OUT/surgery.json  of a GPT-2 and a Llama, by method: of each matrix the number of zeros, and the norm and a projection of the weights, after the
                  blocks were compressed one after the other, each with the inputs that the blocks before it give.
"""

import importlib.util
import json
import pathlib
import sys

import torch

spec = importlib.util.spec_from_file_location("llama_vectors", pathlib.Path(__file__).with_name("llama-vectors.py"))
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)
numbers = base.numbers

DAMPING, BLOCK = 0.01, 128
# By method: bits of a code, inputs that share a scale, part to prune, weights to prune of how many, and the gap of a code.
METHODS = {
    "gptq-int8": dict(bits=8, gap=5e-5),
    "gptq-int4": dict(bits=4),
    "gptq-int4-8": dict(bits=4, group=8),
    "sparsegpt": dict(sparsity=0.5),
    "sparsegpt-99": dict(sparsity=0.99),
    "sparsegpt-2:4": dict(pattern=(2, 4)),
    "sparsegpt-gptq": dict(sparsity=0.3, bits=4, group=8),
    "sparsegpt-2:4-gptq": dict(pattern=(2, 4), bits=4, group=8),
}
# First of the eight calibration batches, by network and method: with it no decision is nearer to another one than the gap, so that
# rounding to single precision decides nothing. The gap is a part of a score, or of the distance between two codes. `--search` finds them.
STARTS = {
    "gpt2": dict(zip(METHODS, (3, 1, 0, 0, 0, 0, 2, 1))),
    "llama": dict(zip(METHODS, (2, 0, 1, 0, 0, 0, 0, 0))),
}
GAP = 1e-5


def batches(start):
    ids = torch.arange(base.BATCH * base.LENGTH)
    ids = (ids * ids + 7 * ids) % base.VOCAB
    return [((ids + start + 5 * batch) % base.VOCAB).reshape(base.BATCH, base.LENGTH) for batch in range(8)]


def products_of(x):
    return x.T @ x


products = products_of


def rounded_products(x):
    """The products of inputs in single precision that have an error in the last place."""
    return products_of((x * (1 + 1e-7 * torch.randn(x.shape, dtype=torch.float64))).float().double())


class Near(Exception):
    """Rounding may decide."""


def lowest(scores, count):
    """True for the `count` lowest of a list of scores."""
    order = scores.argsort()
    if 0 < count < len(scores):
        low, high = scores[order[count - 1]], scores[order[count]]
        if high - low < GAP * high:
            raise Near(((high - low) / high).item())
    found = torch.zeros(len(scores), dtype=torch.bool)
    found[order[:count]] = True
    return found


def nearest(weights, scale, limit, gap):
    places = weights / scale
    distance = (places - places.floor() - 0.5).abs()
    if len(places) > 0 and distance.min() < gap:
        raise Near(distance.min().item())
    return places.round().clamp(-limit, limit) * scale


def surgery(weight, x, bits=None, group=None, sparsity=0.0, pattern=None, gap=2 * GAP):
    """`weight` `[inputs, outputs]` after the sweep over the columns of its transpose, for the inputs `x` `[rows, inputs]`."""
    w = weight.T.clone()
    outputs, inputs = w.shape
    hessian = 2 * products(x) / len(x)
    hessian += DAMPING * hessian.diagonal().mean() * torch.eye(inputs)
    factor = torch.linalg.cholesky(torch.linalg.inv(hessian), upper=True)
    group, limit = group or inputs, 2 ** (bits or 1) // 2 - 1
    for column in range(inputs):
        if column % BLOCK == 0:
            block = slice(column, min(column + BLOCK, inputs))
            scores = w[:, block] ** 2 / factor.diagonal()[block] ** 2
            pruned = torch.zeros_like(w, dtype=torch.bool)
            pruned[:, block] = lowest(scores.flatten(), int(sparsity * scores.numel())).reshape(scores.shape)
        if pattern and column % pattern[1] == 0:
            part = slice(column, column + pattern[1])
            for row, scores in enumerate(w[:, part] ** 2 / factor.diagonal()[part] ** 2):
                pruned[row, part] = lowest(scores, pattern[0])
        if bits and column % group == 0:
            # Scales are stored in single precision.
            scale = (w[:, column : column + group].abs().max(1).values / limit).float().double()
        target = torch.where(pruned[:, column], 0, w[:, column])
        if bits:
            kept = ~pruned[:, column]
            target[kept] = nearest(w[kept, column], scale[kept], limit, gap)
        error = (w[:, column] - target) / factor[column, column]
        w[:, column:] -= error[:, None] * factor[column, column:]
        w[:, column] = target
    return w.T


def inputs_of(p, c, tokens, prefix):
    """The inputs of the linear layers whose names begin with `prefix`."""
    found = {}
    names = {id(value): name for name, value in p.items() if value.dim() == 2 and name.startswith(prefix)}

    class Products(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function in (torch.Tensor.matmul, torch.Tensor.__matmul__, torch.matmul) and id(args[1]) in names:
                x = args[0]
                found.setdefault(names[id(args[1])], []).append(x.reshape(-1, x.shape[-1]))
            return function(*args, **(kwargs or {}))

    with Products(), torch.no_grad():
        for ids in tokens:
            base.forward(p, c, ids)
    assert set(found) == set(names.values()), set(names.values()) - set(found)
    return {name: torch.cat(parts) for name, parts in found.items()}


def compressed(c, method, start):
    p = base.weights(c)
    tokens, matrices = batches(start), {}
    for block in range(base.LAYERS):
        for name, x in inputs_of(p, c, tokens, f"h.{block}.").items():
            # Weights that the lab keeps in single precision give the inputs of the next block.
            matrices[name] = p[name] = surgery(p[name], x, **METHODS[method]).float().double()
    return matrices


def described(matrices):
    values = {name: matrix.flatten() for name, matrix in matrices.items()}
    return {n: [int((v == 0).sum()), v.norm().item(), (v @ numbers("projection", v.numel())).item()] for n, v in values.items()}


def search():
    """Prints the first batches with which no decision is near another one, and rounding of inputs does not change one."""
    global products
    for name, c in {"gpt2": base.GPT2, "llama": base.LLAMA}.items():
        for method in METHODS:
            for start in range(base.VOCAB):
                try:
                    exact = compressed(c, method, start)
                    products = rounded_products
                    rounded = [compressed(c, method, start) for _ in range(3)]
                except Near:
                    continue
                finally:
                    products = products_of
                errors = [(r[n] - exact[n]).norm() / exact[n].norm() for r in rounded for n in exact]
                if max(errors) > 3e-6:
                    continue
                print(name, method, start, max(errors).item(), flush=True)
                break
            else:
                print(name, method, "none", flush=True)


def main():
    cases = {}
    for name, c in {"gpt2": base.GPT2, "llama": base.LLAMA}.items():
        settings = dict({key: value for key, value in c.items() if key != "hidden"}, mlp_hidden=c["hidden"])
        found = {}
        for method in METHODS:
            start = STARTS[name][method]
            found[method] = {"start": start, "matrices": described(compressed(c, method, start))}
        cases[name] = {"with": settings, "methods": found}
    (pathlib.Path(sys.argv[1]) / "surgery.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    search() if "--search" in sys.argv else main()
