#!/usr/bin/env python3
"""Writes the reference vectors of optimizers over 50 steps, of pruning by Wanda and of quantization.

    python scripts/lab-vectors.py crates/lab/tests/golden

The environment needs PyTorch 2.5 or later, schedulefree 1.4, transformers and safetensors; the vectors were written with PyTorch
2.15. All numbers are computed in double precision from weights in single precision, except where the format is the subject.

OUT/steps.json        the change of each parameter of Llama by 50 steps along given gradients with a warm-up from 0: its norm and a
                      projection. Adafactor is `torch.optim.Adafactor`; Schedule-Free AdamW is written here with its three sequences of
                      weights and agrees with the authors' package to 1e-12; Lion and Muon are those of `llama-vectors.py`.
OUT/compression.json  of a GPT-2 and a Llama: for each matrix a projection of Wanda's masks, and of the weights after rounding to 8
                      and 4 bits, in numpy and single precision; and the bytes of all parameters.
"""

import importlib.util
import json
import math
import pathlib
import sys

import numpy as np
import schedulefree
import torch

spec = importlib.util.spec_from_file_location("llama_vectors", pathlib.Path(__file__).with_name("llama-vectors.py"))
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)
numbers = base.numbers

STEPS, WARMUP, RATE, DECAY = 50, 10, base.RATE, base.DECAY
OPTIMIZERS = {
    "adafactor": dict(optimizer="adafactor"),
    "adafactor-large": dict(optimizer="adafactor", lr=0.3, adafactor_decay=0.5, adafactor_clip=1.5),
    "schedulefree": dict(optimizer="schedulefree", beta_1=0.9, beta_2=0.95, lr_schedule="constant"),
    "lion": dict(optimizer="lion", beta_1=0.9, beta_2=0.99, lr=0.002),
    "muon": dict(optimizer="muon"),
}


def rate(c, step):
    return c.get("lr", RATE) * min(1, step / WARMUP)


def gradient(name, step, value):
    return (0.1 * numbers(f"{name}.{step}", value.numel())).float().to(value.dtype).reshape(value.shape)


class ScheduleFree:
    """Algorithm 1 of Defazio et al. 2024, by AdamW, with its sequences x, y and z."""

    def __init__(self, start, c):
        self.z = {name: value.clone() for name, value in start.items()}
        self.x = {name: value.clone() for name, value in start.items()}
        self.v = {name: torch.zeros_like(value) for name, value in start.items()}
        self.c, self.total = c, 0.0

    def y(self, name):
        return (1 - self.c["beta_1"]) * self.z[name] + self.c["beta_1"] * self.x[name]

    def step(self, gradients, lr, step):
        beta_2 = self.c["beta_2"]
        # The rate never falls, so it is the highest so far.
        self.total += lr * lr
        part = lr * lr / self.total if self.total else 0.0
        for name, grad in gradients.items():
            y = self.y(name)
            self.v[name] = beta_2 * self.v[name] + (1 - beta_2) * grad * grad
            root = (self.v[name] / (1 - beta_2 ** (step + 1))).sqrt()
            self.z[name] = self.z[name] - lr * (grad / (root + 1e-8) + DECAY * y)
            self.x[name] = (1 - part) * self.x[name] + part * self.z[name]


def schedule_free(start, c):
    """The weights of the training, and those of the evaluation."""
    own = ScheduleFree(start, c)
    p = {name: value.clone().requires_grad_() for name, value in start.items()}
    package = schedulefree.AdamWScheduleFree(p.values(), lr=1.0, betas=(c["beta_1"], c["beta_2"]), weight_decay=DECAY)
    package.train()
    for step in range(STEPS):
        gradients = {name: gradient(name, step, value) for name, value in start.items()}
        own.step(gradients, rate(c, step), step)
        for name, value in p.items():
            value.grad = gradients[name].clone()
        package.param_groups[0]["lr"] = rate(c, step)
        package.step()
    trained = {name: own.y(name) for name in start}
    for name, value in p.items():
        if value.dtype == torch.float64:
            assert (value - trained[name]).abs().max() < 1e-12
    package.eval()
    for name, value in p.items():
        if value.dtype == torch.float64:
            assert (value - own.x[name]).abs().max() < 1e-12
    return trained, own.x


def optimized(c, dtype=torch.float64):
    start = {name: value.to(dtype) for name, value in base.weights(base.LLAMA).items()}
    if c["optimizer"] == "schedulefree":
        trained, averaged = schedule_free(start, c)
        return {"changes": projected(trained, start), "averages": projected(averaged, start)}
    p = {name: value.clone().requires_grad_() for name, value in start.items()}
    hidden = {name for name, value in p.items() if value.dim() == 2 and name.startswith("h.")}
    if c["optimizer"] == "adafactor":
        options = dict(beta2_decay=-c.get("adafactor_decay", 0.8), d=c.get("adafactor_clip", 1.0))
        eps = (torch.finfo(torch.float32).eps, 1e-3)
        by_torch = torch.optim.Adafactor(p.values(), lr=1.0, eps=eps, weight_decay=DECAY, **options)
    elif c["optimizer"] == "muon":
        group = [value for name, value in p.items() if name not in hidden]
        by_torch = torch.optim.AdamW(group, lr=1.0, betas=(0.9, 0.95), eps=1e-8, weight_decay=DECAY)
    else:
        by_torch = None
    means = {name: torch.zeros_like(value) for name, value in p.items()}
    shared = base.WIDTH // base.HEADS * base.LLAMA["kv_heads"]
    for step in range(STEPS):
        base.RATE = rate(c, step)
        with torch.no_grad():
            for name, value in p.items():
                value.grad = grad = gradient(name, step, value)
                if c["optimizer"] == "lion":
                    base.lion(value, means[name], grad, c)
                elif c["optimizer"] == "muon" and name in hidden:
                    parts = (base.WIDTH, shared, shared) if name.endswith("c_attn.weight") else (value.shape[1],)
                    for part in zip(value.split(parts, 1), means[name].split(parts, 1), grad.split(parts, 1)):
                        base.muon(*part, c)
        if by_torch:
            by_torch.param_groups[0]["lr"] = rate(c, step)
            by_torch.step()
    return {"changes": projected(p, start)}


def projected(values, start):
    changes = {name: (values[name].detach() - start[name]).flatten().double() for name in start}
    return {name: [x.norm().item(), (x @ numbers("projection", x.numel())).item()] for name, x in changes.items()}


def input_norms(p, c, ids):
    """The norms of the inputs of all linear layers, over all tokens."""
    norms = {}
    # `base.forward` multiplies by `p[name + ".weight"]`: a mode sees each product and its second factor.
    names = {id(value): name for name, value in p.items() if value.dim() == 2 and name.startswith("h.")}

    class Products(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function in (torch.Tensor.matmul, torch.Tensor.__matmul__, torch.matmul) and id(args[1]) in names:
                x = args[0]
                norms[names[id(args[1])]] = x.reshape(-1, x.shape[-1]).norm(dim=0)
            return function(*args, **(kwargs or {}))

    with Products(), torch.no_grad():
        base.forward(p, c, ids)
    assert set(norms) == set(names.values()), set(names.values()) - set(norms)
    return norms


def wanda(weight, norm):
    """Masks for half of the inputs of each output, and for 2:4; no scores are so near that rounding decides."""
    scores = weight.abs() * norm[:, None]
    half, pattern = torch.ones_like(scores), torch.ones_like(scores)
    order = scores.argsort(0)
    inputs = len(norm)
    half.scatter_(0, order[: inputs // 2], 0)
    ranked = scores.gather(0, order)
    assert ((ranked[inputs // 2] - ranked[inputs // 2 - 1]) / ranked[inputs // 2]).min() > 1e-5
    groups = scores.reshape(inputs // 4, 4, -1)
    order = groups.argsort(1)
    ranked = groups.gather(1, order)
    assert ((ranked[:, 2] - ranked[:, 1]) / ranked[:, 2]).min() > 1e-5
    pattern = pattern.reshape(groups.shape).scatter_(1, order[:, :2], 0).reshape(scores.shape)
    return half, pattern


def rounded(weight, bits, group):
    """`weight` `[inputs, outputs]` in numpy, and its codes."""
    weight = weight.numpy().astype(np.float32)
    groups = weight.reshape(-1, group, weight.shape[1])
    limit = np.float32(2 ** (bits - 1) - 1)
    scales = np.abs(groups).max(1, keepdims=True) / limit
    codes = np.clip(np.rint(groups / scales), -limit, limit)
    return torch.from_numpy((codes * scales).astype(np.float32).reshape(weight.shape)), scales.size


def compressed(c):
    p = base.weights(c)
    ids = torch.arange(base.BATCH * base.LENGTH).reshape(base.BATCH, base.LENGTH)
    ids = (ids * ids + 7 * ids) % base.VOCAB
    norms = input_norms(p, c, ids)
    result = {"with": dict({k: v for k, v in c.items() if k != "hidden"}, mlp_hidden=c["hidden"]), "matrices": {}}
    sizes = {name: 4 * sum(value.numel() for value in p.values()) for name in ("int8", "int4", "int4-8")}
    project = lambda x: (x.double().flatten() @ numbers("projection", x.numel())).item()
    for name, norm in norms.items():
        weight = p[name]
        half, pattern = wanda(weight, norm)
        found = {"wanda": [int(half.sum()), project(half)], "wanda-2:4": [int(pattern.sum()), project(pattern)]}
        for word, bits, group in [("int8", 8, len(weight)), ("int4", 4, len(weight)), ("int4-8", 4, 8)]:
            values, scales = rounded(weight, bits, group)
            found[word] = [int((values == 0).sum()), project(values)]
            sizes[word] += math.ceil(weight.numel() * bits / 8) + 4 * scales - 4 * weight.numel()
        result["matrices"][name] = found
    result["bytes"] = sizes
    return result


def main():
    out = pathlib.Path(sys.argv[1])
    steps = {name: {"with": c, **optimized(c)} for name, c in OPTIMIZERS.items()}
    if "--errors" in sys.argv:
        for name, c in OPTIMIZERS.items():
            short = optimized(c, torch.float32)
            for kind in short:
                pairs = [(a, b) for key in short[kind] for a, b in zip(short[kind][key], steps[name][kind][key])]
                norms = [steps[name][kind][key][0] for key in short[kind] for _ in range(2)]
                print(name, kind, max(abs(a - b) / norm for (a, b), norm in zip(pairs, norms)))
    (out / "steps.json").write_text(json.dumps(steps, indent=1) + "\n")
    cases = {"gpt2": compressed(base.GPT2), "llama": compressed(base.LLAMA)}
    (out / "compression.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
