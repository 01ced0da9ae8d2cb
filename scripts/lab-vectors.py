#!/usr/bin/env python3
"""Writes the reference vectors of optimizers over 50 or 16 steps, of the z-loss, of pruning by Wanda and of quantization.

    python scripts/lab-vectors.py crates/lab/tests/golden

The environment needs PyTorch 2.5 or later, schedulefree 1.4, transformers and safetensors; the vectors were written with PyTorch
2.15. All numbers are computed in double precision from weights in single precision, except where the format is the subject.

OUT/steps.json        the change of each parameter of Llama by 50 steps (SOAP: 16) along given gradients with a warm-up from 0: its norm and a
                      projection. Adafactor is `torch.optim.Adafactor`; Schedule-Free AdamW is written here with its three sequences of
                      weights and agrees with the authors' package to 1e-12; Lion and Muon are those of `llama-vectors.py`. SOAP is
                      written here by its definitions. The authors' program (github.com/nikhilvyas/SOAP) leaves open the basis of a
                      preconditioner's null space, and takes what LAPACK returns; here the null space has the last columns of a
                      complete QR decomposition. With these first bases, and in double precision throughout, the authors' program
                      gives the same weights: `--soap FILE` compares with its `soap.py`. Gradients for SOAP are without a pattern,
                      because those of the other optimizers have rank 4, and there are 16 of them, in which no two vectors of a basis
                      have nearly the same eigenvalue.
OUT/objective.json    of a GPT-2 and a Llama trained with a z-loss, one with a soft cap of the logits: the cross-entropy before each of
                      four steps of AdamW, and of each parameter's first gradient the norm and a projection.
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
# Of SOAP. With the salt, the relative distance of neighboring eigenvalues is larger than the gap, so that rounding to single precision
# does not decide the order of a basis.
SOAP_STEPS, SALT, GAP = 16, 2903, 1e-5
OPTIMIZERS = {
    "adafactor": dict(optimizer="adafactor"),
    "adafactor-large": dict(optimizer="adafactor", lr=0.3, adafactor_decay=0.5, adafactor_clip=1.5),
    "schedulefree": dict(optimizer="schedulefree", beta_1=0.9, beta_2=0.95, lr_schedule="constant"),
    "lion": dict(optimizer="lion", beta_1=0.9, beta_2=0.99, lr=0.002),
    "muon": dict(optimizer="muon"),
    "soap": dict(optimizer="soap", beta_1=0.95),
    "soap-often": dict(optimizer="soap", beta_1=0.9, precondition_frequency=3, lr=0.005),
    "soap-one-sided": dict(optimizer="soap", beta_1=0.95, precondition_frequency=1, precondition_limit=40),
}


def rate(c, step):
    return c.get("lr", RATE) * min(1, step / WARMUP)


def steps_of(c):
    return SOAP_STEPS if c["optimizer"] == "soap" else STEPS


def gradient(name, step, value):
    return (0.1 * numbers(f"{name}.{step}", value.numel())).float().to(value.dtype).reshape(value.shape)


def unpatterned(name, step, shape):
    """Numbers between -0.1 and 0.1 of a linear congruential generator, exact in single precision before the factor."""
    state = SALT + sum((index + 1) * ord(letter) for index, letter in enumerate(f"{name}.{step}"))
    values = []
    for _ in range(math.prod(shape)):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append((state >> 40) / 2**23 - 1)
    return (0.1 * torch.tensor(values, dtype=torch.float64)).float().reshape(shape)


class Soap:
    """SOAP of one matrix: Algorithm 3 of Vyas et al. 2024 with the details of the authors' program."""

    def __init__(self, c, shape):
        self.c = c
        self.frequency, limit = c.get("precondition_frequency", 10), c.get("precondition_limit", 10000)
        self.sides = [side for side in (0, 1) if shape[side] <= limit]
        self.steps, self.means, self.bases = 0, {}, {}

    def products(self, grad, side):
        return grad @ grad.T if side == 0 else grad.T @ grad

    def turned(self, x, back=False):
        for side, basis in self.bases.items():
            basis = basis if back else basis.T
            x = basis @ x if side == 0 else x @ basis.T
        return x

    def step(self, p, grad, lr):
        beta_1, beta_2 = self.c["beta_1"], self.c.get("beta_2", 0.95)
        if not self.means:
            self.m, self.v = torch.zeros_like(p), torch.zeros_like(p)
            self.means = {side: (1 - beta_2) * self.products(grad, side) for side in self.sides}
            self.bases = {side: first_basis(grad if side == 0 else grad.T) for side in self.sides}
            return
        self.steps += 1
        rotated = self.turned(grad)
        self.m = beta_1 * self.m + (1 - beta_1) * rotated
        self.v = beta_2 * self.v + (1 - beta_2) * rotated**2
        correction = math.sqrt(1 - beta_2**self.steps) / (1 - beta_1**self.steps)
        p -= lr * correction * self.turned(self.m / (self.v.sqrt() + 1e-8), back=True)
        p *= 1 - lr * DECAY
        for side in self.sides:
            self.means[side] = beta_2 * self.means[side] + (1 - beta_2) * self.products(grad, side)
        if self.steps % self.frequency == 0:
            mean = self.turned(self.m, back=True)
            for side in self.sides:
                basis = self.bases[side]
                estimates, order = (basis.T @ self.means[side] @ basis).diagonal().sort(descending=True)
                if p.dtype == torch.float64:
                    assert (1 - estimates[1:] / estimates[:-1]).min() > GAP
                self.v = self.v.index_select(side, order)
                self.bases[side] = torch.linalg.qr(self.means[side] @ basis[:, order])[0]
            self.m = self.turned(mean)


def first_basis(grad):
    """Left singular vectors, the largest singular value first, and a basis of what is orthogonal to them."""
    vectors, values, _ = torch.linalg.svd(grad.double(), full_matrices=False)
    vectors = vectors[:, values > 1e-5 * values[0]]
    return torch.linalg.qr(vectors, mode="complete")[0].to(grad.dtype)


def authors_soap(path, c, start, names):
    """The weights after the authors' program, in double precision, with the first bases of `first_basis`."""
    text = pathlib.Path(path).read_text().replace(".float()", "").replace("torch.float:", "torch.float64:")
    module = {}
    exec(compile(text, path, "exec"), module)
    bases = iter(())
    module["SOAP"].get_orthogonal_matrix = lambda self, means: [next(bases) if len(mean) else [] for mean in means]
    options = dict(betas=(c["beta_1"], c.get("beta_2", 0.95)), weight_decay=DECAY, max_precond_dim=c.get("precondition_limit", 10000))
    p = {name: start[name].clone().requires_grad_() for name in names}
    frequency = c.get("precondition_frequency", 10)
    by_authors = module["SOAP"](p.values(), lr=1.0, precondition_frequency=frequency, **options)
    torch.set_default_dtype(torch.float64)
    for step in range(SOAP_STEPS):
        firsts = []
        for name, value in p.items():
            value.grad = unpatterned(name, step, value.shape).double()
            limit = options["max_precond_dim"]
            sides = [value.grad, value.grad.T]
            firsts += [first_basis(grad) for side, grad in enumerate(sides) if value.shape[side] <= limit]
        bases = iter(firsts)
        by_authors.param_groups[0]["lr"] = rate(c, step)
        by_authors.step()
    torch.set_default_dtype(torch.float32)
    return p


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
        return {"steps": STEPS, "changes": projected(trained, start), "averages": projected(averaged, start)}
    p = {name: value.clone().requires_grad_() for name, value in start.items()}
    hidden = {name for name, value in p.items() if value.dim() == 2 and name.startswith("h.")}
    if c["optimizer"] == "adafactor":
        options = dict(beta2_decay=-c.get("adafactor_decay", 0.8), d=c.get("adafactor_clip", 1.0))
        eps = (torch.finfo(torch.float32).eps, 1e-3)
        by_torch = torch.optim.Adafactor(p.values(), lr=1.0, eps=eps, weight_decay=DECAY, **options)
    elif c["optimizer"] in ("muon", "soap"):
        group = [value for name, value in p.items() if name not in hidden]
        by_torch = torch.optim.AdamW(group, lr=1.0, betas=(c.get("beta_1", 0.9), 0.95), eps=1e-8, weight_decay=DECAY)
    else:
        by_torch = None
    means = {name: torch.zeros_like(value) for name, value in p.items()}
    soaps = {name: Soap(c, p[name].shape) for name in hidden if c["optimizer"] == "soap"}
    shared = base.WIDTH // base.HEADS * base.LLAMA["kv_heads"]
    steps = steps_of(c)
    for step in range(steps):
        base.RATE = rate(c, step)
        with torch.no_grad():
            for name, value in p.items():
                grad = unpatterned(name, step, value.shape).to(dtype) if soaps else gradient(name, step, value)
                value.grad = grad
                if name in soaps:
                    soaps[name].step(value, grad, rate(c, step))
                if c["optimizer"] == "lion":
                    base.lion(value, means[name], grad, c)
                elif c["optimizer"] == "muon" and name in hidden:
                    parts = (base.WIDTH, shared, shared) if name.endswith("c_attn.weight") else (value.shape[1],)
                    for part in zip(value.split(parts, 1), means[name].split(parts, 1), grad.split(parts, 1)):
                        base.muon(*part, c)
        if by_torch:
            by_torch.param_groups[0]["lr"] = rate(c, step)
            by_torch.step()
    if soaps and dtype == torch.float64 and "--soap" in sys.argv:
        by_authors = authors_soap(sys.argv[sys.argv.index("--soap") + 1], c, start, soaps)
        error = max((by_authors[name] - p[name]).abs().max().item() for name in soaps)
        print("difference from the authors' program", c, error)
        assert error < 1e-9
    return {"steps": steps, "changes": projected(p, start)}


OBJECTIVES = {
    "gpt2": dict(base.GPT2, z_loss=0.05),
    "llama": dict(base.LLAMA, z_loss=0.01),
    "llama-capped": dict(base.LLAMA, z_loss=0.1, logit_cap=2.0),
}


def with_z_loss(c, dtype=torch.float64):
    p = {name: value.to(dtype).requires_grad_() for name, value in base.weights(c).items()}
    ids = torch.arange(base.BATCH * base.LENGTH).reshape(base.BATCH, base.LENGTH)
    ids = (ids * ids + 7 * ids) % base.VOCAB
    targets = (ids + 3) % base.VOCAB
    optimizer = torch.optim.AdamW(p.values(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses, gradients = [], {}
    for step in range(4):
        optimizer.zero_grad()
        logits = base.forward(p, c, ids).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, targets.flatten())
        (loss + c["z_loss"] * (torch.logsumexp(logits, -1) ** 2).mean()).backward()
        losses.append(loss.item())
        if step == 0:
            for name, value in p.items():
                grad = value.grad.flatten().double()
                gradients[name] = [grad.norm().item(), (grad @ numbers("projection", grad.numel())).item()]
        optimizer.step()
    settings = {key: value for key, value in c.items() if key != "hidden"}
    return {"with": dict(settings, mlp_hidden=c["hidden"]), "losses": losses, "gradients": gradients}


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
            for kind in set(short) - {"steps"}:
                pairs = [(a, b) for key in short[kind] for a, b in zip(short[kind][key], steps[name][kind][key])]
                norms = [steps[name][kind][key][0] for key in short[kind] for _ in range(2)]
                print(name, kind, max(abs(a - b) / norm for (a, b), norm in zip(pairs, norms)))
    objectives = {name: with_z_loss(c) for name, c in OBJECTIVES.items()}
    (out / "objective.json").write_text(json.dumps(objectives, indent=1) + "\n")
    (out / "steps.json").write_text(json.dumps(steps, indent=1) + "\n")
    cases = {"gpt2": compressed(base.GPT2), "llama": compressed(base.LLAMA)}
    (out / "compression.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
