#!/usr/bin/env python3
"""Writes the reference vectors of mixtures of experts, of value embeddings and of the maximal update parametrization.

    python scripts/network-vectors.py crates/lab/tests/golden [--errors] [--mup FOLDER]

The environment needs PyTorch 2.5 or later, transformers 5 and safetensors; the vectors were written with PyTorch 2.15. All numbers are
computed in double precision from weights in single precision. `--errors` prints how far PyTorch's own single precision differs.

OUT/networks.json  for each network the cross-entropy before each of four steps of AdamW, and of each parameter's first gradient the
                   norm and a projection. The network is that of `llama-vectors.py`, in which an expert computes only the tokens that
                   choose it. Gradients include `z_loss` and `balance_loss`. The balancing loss is written here by its definition and
                   agrees with transformers' `load_balancing_loss_func`, and the logits of the Llama with experts agree with those of
                   `MixtralForCausalLM`, as far as the single precision goes that both have. One expert agrees with the dense
                   network to 1e-12. With `value_embeddings`, rows of a second table are added to the values, both with a factor. With
                   `mup_base_width`, attention divides scores by the width of a head, the output layer and
                   routers multiply by the base width over the width, and AdamW divides the learning rate of the matrices of
                   linear layers by the ratio of widths, and multiplies their decay with it. `--mup` names the folder of the
                   `mup` package 1.0.0 (github.com/microsoft/mup), whose `MuAdamW` gives the same weights to 1e-12.
"""

import importlib.util
import json
import pathlib
import sys

import torch
from torch.nn import functional as F
from transformers import MixtralConfig, MixtralForCausalLM
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

spec = importlib.util.spec_from_file_location("llama_vectors", pathlib.Path(__file__).with_name("llama-vectors.py"))
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)
numbers = base.numbers

# No two logits of a router that decide about a choice are nearer, so that rounding to single precision decides none.
GAP = 1e-4
MIXTRAL = dict(base.LLAMA, hidden=40, experts=4, experts_per_token=2, balance_loss=0.02)
CASES = {
    "gpt2+experts": dict(base.GPT2, hidden=48, experts=4, experts_per_token=2, balance_loss=0.0),
    "gpt2+balanced-experts": dict(base.GPT2, hidden=48, experts=5, experts_per_token=3, balance_loss=0.3),
    "gpt2+one-expert": dict(base.GPT2, experts=1, experts_per_token=1, balance_loss=0.1),
    "gpt2+one-of-experts": dict(base.GPT2, hidden=48, experts=4, experts_per_token=1, balance_loss=0.05),
    "llama+experts": MIXTRAL,
    "gpt2+value_embeddings": dict(base.GPT2, value_embeddings=1),
    "llama+value_embeddings": dict(base.LLAMA, value_embeddings=1),
    "llama+value_embeddings+experts": dict(MIXTRAL, value_embeddings=1, qk_norm=True),
    "gpt2+mup": dict(base.GPT2, parametrization="mup", mup_base_width=16),
    "llama+mup": dict(base.LLAMA, parametrization="mup", mup_base_width=8),
    "gpt2+mup+everything": dict(base.GPT2, hidden=48, experts=4, experts_per_token=2, balance_loss=0.05, z_loss=0.01, qk_norm=True,
                                kv_heads=2, logit_cap=3.0, tie=False, parametrization="mup", mup_base_width=8),
    "llama+experts+everything": dict(MIXTRAL, experts_per_token=3, qk_norm=True, logit_cap=2.0, z_loss=0.01),
}


def balance(routers, chosen_experts):
    """Switch Transformers, equation 4, over the tokens of all blocks; each token counts as often as it chooses an expert."""
    logits = torch.cat(routers)
    chosen = torch.zeros_like(logits).scatter(1, logits.topk(chosen_experts).indices, 1.0)
    loss = logits.shape[1] * (chosen.mean(0) * logits.softmax(-1).mean(0)).sum()
    by_transformers = load_balancing_loss_func(tuple(routers), logits.shape[1], chosen_experts)
    # Which sums in single precision.
    assert (loss - by_transformers).abs() < 1e-5, (loss, by_transformers)
    return loss


def check_gaps(routers, chosen_experts):
    for logits in routers:
        ordered = logits.sort(descending=True).values
        if chosen_experts < logits.shape[1]:
            assert (ordered[:, chosen_experts - 1] - ordered[:, chosen_experts]).min() > GAP


def batch():
    ids = torch.arange(base.BATCH * base.LENGTH).reshape(base.BATCH, base.LENGTH)
    ids = (ids * ids + 7 * ids) % base.VOCAB
    return ids, (ids + 3) % base.VOCAB


def adamw(c, p):
    """AdamW, by groups with the same learning rate."""
    ratio = base.width_ratio(c)
    hidden = {name for name, value in p.items() if value.dim() == 2 and name.startswith("h.") and "router" not in name}
    groups = [
        {"params": [p[name] for name in p if name not in hidden]},
        {"params": [p[name] for name in p if name in hidden], "lr": 1e-3 / ratio, "weight_decay": 0.1 * ratio},
    ]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def check_mup(folder):
    """The weights after a step of `MuAdamW` from the same gradients."""
    sys.path.insert(0, folder)
    from mup.infshape import InfDim, InfShape
    from mup.optim import MuAdamW

    for c in (c for c in CASES.values() if "mup_base_width" in c):
        start, steps = base.weights(c), []
        for optimizer in (lambda p: adamw(c, p), lambda p: MuAdamW(p.values(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)):
            p = {name: value.clone().requires_grad_() for name, value in start.items()}
            for name, value in p.items():
                value.grad = numbers(name + ".0", value.numel()).reshape(value.shape)
                # The sides that grow with the width, in PyTorch's order of outputs and inputs.
                grows = [side in (base.WIDTH, c["hidden"], 2 * base.WIDTH, 3 * base.WIDTH) for side in value.shape]
                if name.endswith("norm.weight"):
                    grows = [True]
                sides = [InfDim(side * c["mup_base_width"] // base.WIDTH if inf else None, side) for side, inf in zip(value.shape, grows)]
                value.infshape = InfShape(sides[::-1] if name.startswith("h.") else sides)
            optimizer(p).step()
            steps.append(p)
        for name, value in steps[0].items():
            assert (value - steps[1][name]).abs().max() < 1e-12, name


def case(c, dtype=torch.float64):
    p = {name: value.to(dtype).requires_grad_() for name, value in base.weights(c).items()}
    ids, targets = batch()
    optimizer = adamw(c, p)
    losses, gradients = [], {}
    for step in range(4):
        optimizer.zero_grad()
        routers = []
        logits = base.forward(p, c, ids, routers).flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten())
        total = loss + c.get("z_loss", 0.0) * (torch.logsumexp(logits, -1) ** 2).mean()
        if routers:
            check_gaps(routers, c["experts_per_token"])
            total = total + c["balance_loss"] * balance(routers, c["experts_per_token"])
        total.backward()
        losses.append(loss.item())
        if step == 0:
            for name, value in p.items():
                grad = value.grad.flatten().double()
                gradients[name] = [grad.norm().item(), (grad @ numbers("projection", grad.numel())).item()]
        optimizer.step()
    settings = {key: value for key, value in c.items() if key != "hidden"}
    return {"with": dict(settings, mlp_hidden=c["hidden"]), "losses": losses, "gradients": gradients}


def check_mixtral():
    """Logits, cross-entropy and balancing loss of `MixtralForCausalLM` with the weights of `MIXTRAL`."""
    c, p = MIXTRAL, base.weights(MIXTRAL)
    config = MixtralConfig(
        vocab_size=base.VOCAB, hidden_size=base.WIDTH, intermediate_size=c["hidden"], num_hidden_layers=base.LAYERS,
        num_attention_heads=base.HEADS, num_key_value_heads=c["kv_heads"], max_position_embeddings=base.LENGTH,
        rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False, num_local_experts=c["experts"],
        num_experts_per_tok=c["experts_per_token"], router_aux_loss_coef=c["balance_loss"], output_router_logits=True,
        sliding_window=None, attn_implementation="eager", experts_implementation="eager",
    )
    model = MixtralForCausalLM(config).double().eval()
    state = {"model.embed_tokens.weight": p["wte.weight"], "model.norm.weight": p["ln_f.weight"], "lm_head.weight": p["lm_head.weight"]}
    shared = base.WIDTH // base.HEADS * c["kv_heads"]
    for layer in range(base.LAYERS):
        h, there = f"h.{layer}.", f"model.layers.{layer}."
        parts = p[h + "attn.c_attn.weight"].T.split((base.WIDTH, shared, shared))
        for name, part in zip("qkv", parts):
            state[f"{there}self_attn.{name}_proj.weight"] = part
        state[there + "self_attn.o_proj.weight"] = p[h + "attn.c_proj.weight"].T
        state[there + "input_layernorm.weight"] = p[h + "ln_1.weight"]
        state[there + "post_attention_layernorm.weight"] = p[h + "ln_2.weight"]
        state[there + "mlp.gate.weight"] = p[h + "mlp.router.weight"].T
        experts = base.mlp_names(c, h)
        up = [torch.cat((p[f"{name}.c_gate.weight"].T, p[f"{name}.c_fc.weight"].T)) for name in experts]
        state[there + "mlp.experts.gate_up_proj"] = torch.stack(up)
        state[there + "mlp.experts.down_proj"] = torch.stack([p[f"{name}.c_proj.weight"].T for name in experts])
    model.load_state_dict(state)
    ids, targets = batch()
    result = model(ids)
    routers = []
    logits = base.forward(p, c, ids, routers)
    # Which computes the weights of experts in single precision.
    assert (result.logits - logits).abs().max() < 1e-6 * logits.abs().max()
    assert (result.aux_loss - balance(routers, c["experts_per_token"])).abs() < 1e-5


def check_one_expert():
    c = CASES["gpt2+one-expert"]
    p, (ids, _) = base.weights(c), batch()
    renamed = {name.replace(".experts.0", ""): value for name, value in p.items()}
    assert (base.forward(p, c, ids) - base.forward(renamed, base.GPT2, ids)).abs().max() < 1e-12


def errors(exact, short):
    pairs = [(a, b, abs(b)) for a, b in zip(short["losses"], exact["losses"])]
    loss = max(abs(a - b) / scale for a, b, scale in pairs)
    found = [(a, b, max(exact["gradients"][name][0], 1e-3)) for name in exact["gradients"]
             for a, b in zip(short["gradients"][name], exact["gradients"][name])]
    return loss, max(abs(a - b) / scale for a, b, scale in found)


def main():
    out = pathlib.Path(sys.argv[1])
    check_mixtral()
    check_one_expert()
    if "--mup" in sys.argv:
        check_mup(sys.argv[sys.argv.index("--mup") + 1])
    cases = {name: case(c) for name, c in CASES.items()}
    if "--errors" in sys.argv:
        for name, c in CASES.items():
            print(name, *errors(cases[name], case(c, torch.float32)))
    (out / "networks.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
