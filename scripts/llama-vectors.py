#!/usr/bin/env python3
"""Writes the reference vectors of decoders with Llama's parts, with PyTorch and Hugging Face transformers.

    ~/.cache/sweep/transformers/bin/python scripts/llama-vectors.py crates/lab/tests/golden

The environment is the one that `scripts/python-deps.sh` makes (transformers 4.44.2 and Debian's PyTorch 1.13). All numbers
are computed in double precision and rounded to single precision where tensors are stored.

OUT/llama/             a small random `LlamaForCausalLM` in several shards, with grouped queries and the RoPE scaling of Llama 3.1
OUT/llama/gradient/    the gradients of its loss on `expected.safetensors`, under the names of the weights
OUT/llama/after3/      its weights after three steps of AdamW
OUT/llama/expected.safetensors  input_ids, logits, the loss before each step
OUT/optimizers.json    for Lion, SGD and Muon, the change of each parameter of Llama by four steps along given gradients: its norm and a
                       projection. SGD is PyTorch's, with decoupled weight decay before the step; Lion and Muon are written here by
                       their published formulas, Muon with the coefficients, the mean and the factors of `torch.optim.Muon` 2.9,
                       but in double precision instead of bfloat16: with that change, PyTorch 2.15's own
                       code gives the same numbers to 1e-14.
OUT/parts.json         for GPT-2 with each part changed alone, and for Llama with each part changed back: the loss before each of
                       four steps of AdamW, and of each parameter's first gradient the norm and a projection. The network is
                       written here in plain PyTorch operations; its weights follow a formula (`numbers`).
"""

import json
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM


def write_llama(out):
    torch.manual_seed(11)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=64, max_position_embeddings=24, rms_norm_eps=1e-6, rope_theta=500000.0, tie_word_embeddings=False,
        rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 16},
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    for name, parameter in model.named_parameters():
        spread = torch.randn_like(parameter)
        parameter.data = 1 + 0.1 * spread if "norm" in name else 0.15 * spread
    save(model.state_dict(), model, out, shard="40KB")
    model = model.double()
    ids = torch.randint(0, config.vocab_size, (3, 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        result = model(ids, labels=ids)
        result.loss.backward()
        losses.append(result.loss.item())
        if step == 0:
            logits = result.logits.detach().float()
            gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
            save(gradients, model, out / "gradient")
        optimizer.step()
    save(dict(model.named_parameters()), model, out / "after3")
    expected = {"input_ids": ids.to(torch.int32), "logits": logits.contiguous(), "losses": torch.tensor(losses)}
    save_file(expected, out / "expected.safetensors")


def save(tensors, model, folder, shard="1GB"):
    """Writes `tensors` as if they were the weights of `model`."""
    state = {name: tensor.detach().float().contiguous() for name, tensor in tensors.items()}
    model.save_pretrained(folder, state_dict=state, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)


LAYERS, HEADS, WIDTH, VOCAB, LENGTH, BATCH = 2, 4, 32, 40, 12, 2
GPT2 = dict(norm="layernorm", position="learned", activation="gelu", glu=False, kv_heads=HEADS, bias=True, tie=True,
            qk_norm=False, logit_cap=0.0, hidden=4 * WIDTH)
LLAMA = dict(GPT2, norm="rmsnorm", position="rope", activation="silu", glu=True, kv_heads=2, bias=False, tie=False,
             hidden=88)
CHANGES = {
    "norm": dict(norm="rmsnorm"), "position": dict(position="rope"), "none": dict(position="none"),
    "silu": dict(activation="silu"), "relu2": dict(activation="relu2"), "glu": dict(glu=True, hidden=88),
    "kv_heads": dict(kv_heads=1), "bias": dict(bias=False), "tie": dict(tie=False), "qk_norm": dict(qk_norm=True),
    "logit_cap": dict(logit_cap=2.0),
}
BACK = {key: {key: GPT2[key]} for key in ("norm", "position", "kv_heads", "bias", "tie")}
BACK["glu"] = dict(glu=False, hidden=4 * WIDTH)
BACK["everything"] = dict(qk_norm=True, logit_cap=2.0)


def numbers(name, count):
    """`count` numbers between -1 and 1, which follow from `name`."""
    phase = sum((index + 1) * ord(letter) for index, letter in enumerate(name))
    places = torch.arange(1, count + 1, dtype=torch.float64)
    return torch.sin(places * 12.9898 + phase * 0.37) * torch.cos(places * 0.7 + phase)


def mlp_names(c, h):
    """The names of the MLPs of the block whose names begin with `h`."""
    return [f"{h}mlp.experts.{index}" for index in range(c["experts"])] if c.get("experts") else [h + "mlp"]


def mixes_values(c, layer):
    blocks = c.get("value_embeddings", 0)
    return layer in [*range(LAYERS)][:blocks] or layer in [*range(LAYERS)][::-1][:blocks]


def width_ratio(c):
    return WIDTH / c.get("mup_base_width", WIDTH)


def shapes(c):
    d, shared = WIDTH, WIDTH // HEADS * c["kv_heads"]
    found = {"wte.weight": (VOCAB, d)}
    if c["position"] == "learned":
        found["wpe.weight"] = (LENGTH, d)
    if c.get("value_embeddings"):
        found["vte.weight"] = (VOCAB, shared)

    def linear(name, inputs, outputs):
        found[f"{name}.weight"] = (inputs, outputs)
        if c["bias"]:
            found[f"{name}.bias"] = (outputs,)

    def norm(name, width):
        found[f"{name}.weight"] = (width,)
        if c["bias"] and c["norm"] == "layernorm":
            found[f"{name}.bias"] = (width,)

    for layer in range(LAYERS):
        h = f"h.{layer}."
        norm(h + "ln_1", d)
        linear(h + "attn.c_attn", d, d + 2 * shared)
        linear(h + "attn.c_proj", d, d)
        if c["qk_norm"]:
            found[h + "attn.q_norm.weight"] = found[h + "attn.k_norm.weight"] = (d // HEADS,)
        if mixes_values(c, layer):
            found[h + "attn.value_mix"] = (2,)
        norm(h + "ln_2", d)
        for name in mlp_names(c, h):
            linear(f"{name}.c_fc", d, c["hidden"])
            if c["glu"]:
                linear(f"{name}.c_gate", d, c["hidden"])
            linear(f"{name}.c_proj", c["hidden"], d)
        if c.get("experts"):
            found[h + "mlp.router.weight"] = (d, c["experts"])
    norm("ln_f", d)
    if not c["tie"]:
        found["lm_head.weight"] = (VOCAB, d)
    return found


def forward(p, c, ids, routers=None):
    """The logits of `ids` `[batch, length]`; those of the routers, `[tokens, experts]` of each block, are added to `routers`."""
    batch, length = ids.shape
    width = WIDTH // HEADS

    def linear(name, x):
        x = x @ p[f"{name}.weight"]
        return x + p[f"{name}.bias"] if c["bias"] else x

    def rms(gain, x):
        return gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)

    def norm(name, x):
        if c["norm"] == "rmsnorm":
            return rms(p[f"{name}.weight"], x)
        return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p.get(f"{name}.bias"), 1e-5)

    def act(x):
        return {"gelu": F.gelu, "silu": F.silu, "relu2": lambda x: F.relu(x) ** 2}[c["activation"]](x)

    # As complex numbers: another form than that of Llama's own code.
    pairs = width // 2
    angles = torch.outer(torch.arange(length, dtype=torch.float64), 10000.0 ** (-torch.arange(pairs) * 2.0 / width))
    turn = torch.polar(torch.ones_like(angles), angles)

    def rope(x):
        z = torch.complex(x[..., :pairs], x[..., pairs:]) * turn
        return torch.cat((z.real, z.imag), -1).to(x.dtype)

    def mlp(name, x):
        if c["glu"]:
            return linear(f"{name}.c_proj", act(linear(f"{name}.c_gate", x)) * linear(f"{name}.c_fc", x))
        return linear(f"{name}.c_proj", act(linear(f"{name}.c_fc", x)))

    x = p["wte.weight"][ids]
    if c["position"] == "learned":
        x = x + p["wpe.weight"][:length]
    shared = width * c["kv_heads"]
    hidden_keys = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    for layer in range(LAYERS):
        h = f"h.{layer}."
        q, k, v = linear(h + "attn.c_attn", norm(h + "ln_1", x)).split((WIDTH, shared, shared), -1)
        if mixes_values(c, layer):
            of_value, of_embedding = p[h + "attn.value_mix"]
            v = of_value * v + of_embedding * p["vte.weight"][ids]
        q, k, v = (part.view(batch, length, -1, width).transpose(1, 2) for part in (q, k, v))
        if c["qk_norm"]:
            q, k = rms(p[h + "attn.q_norm.weight"], q), rms(p[h + "attn.k_norm.weight"], k)
        if c["position"] == "rope":
            q, k = rope(q), rope(k)
        k, v = (part.repeat_interleave(HEADS // c["kv_heads"], 1) for part in (k, v))
        scale = width if c.get("mup_base_width") else math.sqrt(width)
        scores = (q @ k.transpose(2, 3) / scale).masked_fill(hidden_keys, -math.inf)
        context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + linear(h + "attn.c_proj", context)
        inner = norm(h + "ln_2", x)
        if not c.get("experts"):
            x = x + mlp(h + "mlp", inner)
            continue
        tokens = inner.flatten(0, 1)
        router = tokens @ p[h + "mlp.router.weight"] / width_ratio(c)
        if routers is not None:
            routers.append(router)
        found, chosen = router.topk(c["experts_per_token"])
        parts = found.softmax(-1)
        output = torch.zeros_like(tokens)
        # Each expert computes the tokens that choose it, and no other.
        for index, name in enumerate(mlp_names(c, h)):
            token, choice = torch.where(chosen == index)
            output = output.index_add(0, token, mlp(name, tokens[token]) * parts[token, choice, None])
        x = x + output.reshape(x.shape)
    logits = norm("ln_f", x) @ (p["wte.weight"] if c["tie"] else p["lm_head.weight"]).T / width_ratio(c)
    return c["logit_cap"] * torch.tanh(logits / c["logit_cap"]) if c["logit_cap"] else logits


def weights(c):
    p = {}
    for name, shape in shapes(c).items():
        values = numbers(name, math.prod(shape)).reshape(shape)
        gain = len(shape) == 1 and name.endswith("weight")
        # In single precision, in which the lab has them.
        p[name] = (1 + 0.1 * values if gain else 0.3 * values).float().double()
    return p


def case(c):
    p = {name: value.requires_grad_() for name, value in weights(c).items()}
    ids = torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH)
    ids = (ids * ids + 7 * ids) % VOCAB
    targets = (ids + 3) % VOCAB
    optimizer = torch.optim.AdamW(p.values(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses, gradients = [], {}
    for step in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(p, c, ids).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            for name, parameter in p.items():
                grad = parameter.grad.flatten()
                gradients[name] = [grad.norm().item(), (grad @ numbers("projection", grad.numel())).item()]
        optimizer.step()
    settings = {key: value for key, value in c.items() if key != "hidden"}
    return {"with": dict(settings, mlp_hidden=c["hidden"]), "losses": losses, "gradients": gradients}


RATE, DECAY = 0.02, 0.1
OPTIMIZERS = {
    "sgd": dict(optimizer="sgd", momentum=0.8), "nesterov": dict(optimizer="sgd", nesterov=True, momentum=0.9),
    "lion": dict(optimizer="lion", beta_1=0.9, beta_2=0.99), "muon": dict(optimizer="muon"),
    "muon-original": dict(optimizer="muon", muon_scale="original", nesterov=False, momentum=0.8),
}


def orthogonal(x):
    if x.shape[0] > x.shape[1]:
        return orthogonal(x.T).T
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def lion(p, mean, grad, c):
    direction = (c["beta_1"] * mean + (1 - c["beta_1"]) * grad).sign()
    mean.mul_(c["beta_2"]).add_(grad, alpha=1 - c["beta_2"])
    p.mul_(1 - RATE * DECAY).sub_(direction, alpha=RATE)


def muon(p, mean, grad, c):
    momentum = c.get("momentum", 0.95)
    mean.lerp_(grad, 1 - momentum)
    direction = grad.lerp(mean, momentum) if c.get("nesterov", True) else mean
    # In PyTorch's layout of a linear layer, [out, in].
    rows, columns = p.shape[1], p.shape[0]
    original = c.get("muon_scale") == "original"
    factor = math.sqrt(max(1, rows / columns)) if original else 0.2 * math.sqrt(max(rows, columns))
    p.mul_(1 - RATE * DECAY).sub_(orthogonal(direction.T).T, alpha=RATE * factor)


def optimized(c):
    """The change of each parameter."""
    start = weights(LLAMA)
    p = {name: value.clone().requires_grad_() for name, value in start.items()}
    hidden = {name for name, value in p.items() if value.dim() == 2 and name.startswith("h.")}
    by_torch = {"sgd": set(p), "lion": set(), "muon": set(p) - hidden}[c["optimizer"]]
    group = [p[name] for name in p if name in by_torch]
    if c["optimizer"] == "sgd":
        torch_optimizer = torch.optim.SGD(group, lr=RATE, momentum=c["momentum"], nesterov=c.get("nesterov", False))
    elif group:
        torch_optimizer = torch.optim.AdamW(group, lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=DECAY)
    means = {name: torch.zeros_like(value) for name, value in p.items()}
    widths = (WIDTH, WIDTH // HEADS * LLAMA["kv_heads"], WIDTH // HEADS * LLAMA["kv_heads"])
    for step in range(4):
        with torch.no_grad():
            for name, value in p.items():
                grad = (0.1 * numbers(f"{name}.{step}", value.numel())).float().double().reshape(value.shape)
                value.grad = grad
                if c["optimizer"] == "sgd":
                    value.mul_(1 - RATE * DECAY)
                elif c["optimizer"] == "lion":
                    lion(value, means[name], grad, c)
                elif name in hidden:
                    parts = widths if name.endswith("c_attn.weight") else (value.shape[1],)
                    for part in zip(value.split(parts, 1), means[name].split(parts, 1), grad.split(parts, 1)):
                        muon(*part, c)
        if group:
            torch_optimizer.step()
    changes = {name: (p[name].detach() - start[name]).flatten() for name in p}
    return {name: [x.norm().item(), (x @ numbers("projection", x.numel())).item()] for name, x in changes.items()}


def main():
    out = pathlib.Path(sys.argv[1])
    write_llama(out / "llama")
    cases = {"gpt2": case(GPT2), "llama": case(LLAMA)}
    cases.update({f"gpt2+{name}": case({**GPT2, **change}) for name, change in CHANGES.items()})
    cases.update({f"llama-{name}": case({**LLAMA, **change}) for name, change in BACK.items()})
    changes = {name: {"with": c, "changes": optimized(c)} for name, c in OPTIMIZERS.items()}
    (out / "optimizers.json").write_text(json.dumps(changes, indent=1) + "\n")
    (out / "parts.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
