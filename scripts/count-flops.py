#!/usr/bin/env python3
"""Counts the floating-point operations of training every architecture of the ablation on one token, with PyTorch's
FlopCounterMode, and prints them as JSON. Prints what crates/lab/tests/golden/flops.json holds:

    python3 scripts/count-flops.py > crates/lab/tests/golden/flops.json

The networks are written here once more, from the description of the architectures, and share no code with the program.
They are of GPT-2's 124 million parameters' shape and lie on the device `meta`, where nothing is computed. FlopCounterMode
counts the matrix products that the forward and the backward pass really do: none for a gradient that nothing needs, and
none for sums, running means, softmax or GELU.
"""

import json
import math

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

LAYERS, HEADS, WIDTH, TOKENS, VOCAB = 12, 12, 768, 1024, 50304
HEAD = WIDTH // HEADS


def matrix(*shape):
    return torch.empty(*shape, device="meta", requires_grad=True)


class Block:
    def __init__(self, last, latent=None, folded=None, restart=False, hidden=4 * WIDTH, ra=False, gate=None, pool="prefix",
                 cross=None, recip=None, ra_ct=None, low=None, mixer=False, kv=False):
        self.last, self.latent, self.folded, self.restart = last, latent, folded, restart
        self.ra, self.pool, self.ra_ct, self.recip, self.kv = ra, pool, ra_ct, recip, kv
        if latent:
            self.q = matrix(WIDTH, WIDTH)
            self.k_down, self.v_down = matrix(WIDTH, latent), matrix(WIDTH, latent)
            self.q_latent, self.v_up = matrix(HEADS, HEAD, latent), matrix(HEADS, latent, HEAD)
        else:
            self.qkv = matrix(WIDTH, 3 * WIDTH)
        self.proj = matrix(WIDTH, WIDTH)
        self.low = low
        if low:
            self.up_std, self.up_low = matrix(WIDTH, hidden - low), matrix(WIDTH, low)
            self.mixer = matrix(low, low) if mixer else None
        else:
            self.up = matrix(WIDTH, hidden)
        self.down = matrix(hidden, WIDTH)
        self.gate = (matrix(hidden, gate), matrix(gate, HEADS)) if gate else None
        if cross == "full":
            self.cross = (matrix(hidden, hidden), None)
        else:
            self.cross = (matrix(hidden, cross), matrix(cross, hidden)) if cross else None
        if recip:
            self.back = matrix(hidden, latent)
            self.enrich = matrix(latent, hidden) if recip == "untied" else None
        # A strength that is learned, so that a gradient has to reach what it multiplies.
        self.alpha = matrix(1)

    def heads(self, x):
        return x.view(TOKENS, HEADS, HEAD).transpose(0, 1)

    def attend(self, x, gate, back):
        mask = torch.ones(TOKENS, TOKENS, device="meta", dtype=torch.bool).triu(1)
        latent_keys = None
        if self.latent:
            query = torch.matmul(self.heads(x @ self.q), self.q_latent)
            key, value = x @ self.k_down, x @ self.v_down
            if back is not None:
                key = key + back * self.alpha
            latent_keys = key.detach()
            score = torch.matmul(query, key.t()) / math.sqrt(self.latent)
        else:
            query, key, value = (self.heads(part) for part in (x @ self.qkv).split(WIDTH, 1))
            if self.folded:
                rank = self.folded
                query, key = (
                    torch.cat([query[..., :-rank] * self.alpha, key[..., -rank:] * self.alpha], -1),
                    torch.cat([key[..., :-rank], query[..., -rank:]], -1),
                )
            score = torch.matmul(query, key.transpose(1, 2)) / math.sqrt(HEAD)
        if self.ra:
            score = score + score.transpose(1, 2) * self.alpha
        weight = score.masked_fill(mask, -torch.inf).softmax(-1)
        if self.kv:
            mass = weight.detach().cumsum(1)
            kept = mass >= mass.topk(391, -1).values[..., -1:]
            weight = weight * kept
            weight = weight / weight.sum(-1, keepdim=True)
        if gate is not None:
            weight = weight * (1 + self.alpha * (gate.t().unsqueeze(-1) - 1))
        factor = None
        if self.ra_ct:
            entropy = -(weight * weight.clamp_min(1e-12).log()).sum(-1, keepdim=True)
            largest = weight.topk(8, -1).values.sum(-1, keepdim=True)
            factor = torch.sigmoid((entropy if self.ra_ct == "entropy" else largest) * self.alpha)
            if self.ra_ct == "weights":
                weight, factor = weight * factor, None
        exported = weight.detach().mean(0)
        context = torch.matmul(weight, value)
        if self.latent:
            context = torch.matmul(context, self.v_up)
        if self.restart:
            context = context + (value - context) * self.alpha
        if factor is not None:
            context = context * factor
        return context.transpose(0, 1).reshape(TOKENS, WIDTH) @ self.proj, exported, latent_keys

    def think(self, x, weight, latent_keys):
        gate = back = None
        if self.low:
            low = F.gelu(x @ self.up_low)
            if self.mixer is not None:
                low = low @ self.mixer
            hidden = torch.cat([F.gelu(x @ self.up_std) * self.alpha, low * self.alpha], 1)
        else:
            hidden = F.gelu(x @ self.up)
        if self.recip:
            # What the last block gives back goes to nobody.
            if not self.last:
                back = hidden @ self.back
            enrich = self.back.t() if self.enrich is None else self.enrich
            hidden = hidden + (latent_keys @ enrich) * self.alpha
        if self.cross:
            down, up = self.cross
            kept = weight * (weight >= weight.topk(8, -1).values[..., -1:])
            kept = kept / kept.sum(-1, keepdim=True)
            gathered = kept @ (hidden @ down)
            hidden = hidden + (gathered if up is None else gathered @ up) * self.alpha
        if self.gate and not self.last:
            pooled = hidden @ self.gate[0]
            if self.pool == "prefix":
                pooled = pooled.cumsum(0) / torch.ones(TOKENS, 1, device="meta").cumsum(0)
            gate = torch.sigmoid(pooled @ self.gate[1])
        return hidden @ self.down, gate, back

    def __call__(self, x, gate, back):
        out, weight, latent_keys = self.attend(F.layer_norm(x, [WIDTH]), gate, back)
        x = x + out
        out, gate, back = self.think(F.layer_norm(x, [WIDTH]), weight, latent_keys)
        return x + out, gate, back


def flops_per_token(**parts):
    wte, wpe = matrix(VOCAB, WIDTH), matrix(TOKENS, WIDTH)
    blocks = [Block(last=index == LAYERS - 1, **parts) for index in range(LAYERS)]
    tokens = torch.zeros(TOKENS, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        x, gate, back = F.embedding(tokens, wte) + wpe, None, None
        for block in blocks:
            x, gate, back = block(x, gate, back)
        F.cross_entropy(F.layer_norm(x, [WIDTH]) @ wte.t(), tokens).backward()
    flops, rest = divmod(counter.get_total_flops(), TOKENS)
    assert rest == 0
    return flops


# Widths of the steps at `d_model` 768 (ratio-ablation, sections 5 and 9.5).
WIDE, RATIO = {"hidden": 3840}, {"latent": 128, "hidden": 2560}
GATE_CROSS = {"gate": 192, "cross": 96}
MLA_GATE_CROSS = {"latent": 128, "hidden": 2048, **GATE_CROSS}
RA, CT = {"ra": True}, {"ra_ct": "output"}
STEPS = {
    "0": {},
    "1": {},
    "2": WIDE,
    "3": {"hidden": 3264, "gate": 256},
    "4": GATE_CROSS,
    "5": RA,
    "6": {**WIDE, **RA},
    "7": {**GATE_CROSS, **RA},
    "8": {"latent": 128},
    "9": RATIO,
    "10": MLA_GATE_CROSS,
    "11": {**RATIO, **RA},
    "12": {**MLA_GATE_CROSS, **RA},
    "13": CT,
    "14": {**RATIO, **CT},
    "15": {**RATIO, **RA, **CT},
    "16": {**MLA_GATE_CROSS, **RA, **CT},
    "17": {"ra_ct": "weights"},
    "18": {"ra_ct": "entropy"},
    "V0": {},
    "V1": {"folded": 4},
    "V2": {"folded": 4, "restart": True},
    "V3": {"folded": 4, "low": 64},
    "V4": {"folded": 4, "low": 64, "mixer": True},
    "V5": {"folded": 4, "low": 64},
    "V6": {"folded": 4, "low": 64, "mixer": True},
    "V7": {"folded": 8},
    "V8": {"folded": 8, "restart": True},
    "V9": {"folded": 2},
    "V10": {"folded": 4, "restart": True, "hidden": 6 * WIDTH},
    "V11": {"low": 64},
    "V12": {"folded": 4},
    "V13": {"low": 1152},
    "V14": {"low": 64, "kv": True},
    "V15": {"low": 1152, "kv": True},
    "V16": {"folded": 4},
    "V17": {"low": 64, "kv": True},
    "V18": {"low": 1152, "kv": True},
}
OTHERS = [
    ({"ablation": "4", "ablation_net": "coded"}, {"gate": 64, "cross": "full"}),
    ({"ablation": "10", "ablation_net": "executed"}, {"latent": 64, "hidden": 2048, "gate": 64, "cross": "full"}),
    ({"attention": "mla", "latent_dim": 256}, {"latent": 256}),
    ({"ablation": "8", "latent_recip": True}, {"latent": 128, "recip": "tied"}),
    ({"ablation": "8", "latent_recip": True, "recip_tying": "untied"}, {"latent": 128, "recip": "untied"}),
    ({"mlp_gate": True, "gate_pool": "token"}, {"gate": 64, "pool": "token"}),
]

if __name__ == "__main__":
    asked = [({"ablation": step}, parts) for step, parts in STEPS.items()] + OTHERS
    counted = [json.dumps({"given": given, "flops": flops_per_token(**parts)}) for given, parts in asked]
    print("[\n  " + ",\n  ".join(counted) + "\n]")
