"""GPT-2's training step in PyTorch, eager or compiled, as `crates/lab/benches/train.rs` times its own.

usage: train_gpt2.py LAYERS HEADS WIDTH LENGTH VOCAB BATCH STEPS eager|compiled [cpu|cuda [f32|bf16]]

The last line is: median and least milliseconds of a step, peak of resident memory in MB.
"""

import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, LENGTH, VOCAB, BATCH, STEPS = map(int, sys.argv[1:8])
DEVICE, FORMAT = (sys.argv[9:] + ["cpu", "f32"][len(sys.argv[9:]) :])[:2]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.attn_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.mlp_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.wte.weight, std=0.02)

    def loss(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.T
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


torch.manual_seed(0)
network = Gpt().to(DEVICE)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
loss_of = torch.compile(network.loss) if sys.argv[8] == "compiled" else network.loss
times, phases = [], []


def now():
    """The time at which the device has done everything."""
    if DEVICE != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


for step in range(STEPS + 2):
    tokens, targets = torch.randint(VOCAB, (2, BATCH, LENGTH)).to(DEVICE)
    begun = now()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=FORMAT == "bf16"):
        loss = loss_of(tokens, targets)
    forward = now()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    backward = now()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    end = now()
    if step >= 2:
        times.append((end - begun) * 1e3)
        phases.append([(forward - begun) * 1e3, (backward - forward) * 1e3, (end - backward) * 1e3])
times.sort()
forward, backward, update = (sorted(phase)[len(phase) // 2] for phase in zip(*phases))
print(
    f"PyTorch {torch.__version__}, {sys.argv[8]}, {torch.get_num_threads()} threads: forward and loss {forward:.1f}, "
    f"backward {backward:.1f}, clip and AdamW {update:.1f} ms"
)
print(times[len(times) // 2], times[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
