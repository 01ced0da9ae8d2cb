"""A small GPT-2 on the bytes of a text, in the manner of nanoGPT: plain PyTorch in one file.

    python3 train.py --data kjv.txt --iters 200 --lr 1e-3

The lines that contain `sweep.` are all that `sweep` needs: curves, progress, checkpoints and an early end. By hand they do
nothing. recipes/pytorch.yaml runs this script for several learning rates, dropouts and seeds.
"""

import argparse
import math
import os
import time

import torch
from torch import nn
from torch.nn import functional as F

import sweep.torch


def arguments():
    parser = argparse.ArgumentParser(description="Trains a small GPT-2 on the bytes of a text.")
    add = parser.add_argument
    add("--data", default="kjv.txt", help="a text; its last tenth is held out")
    add("--iters", type=int, default=200, help="optimizer steps")
    add("--batch_size", type=int, default=8, help="sequences in a step")
    add("--seed", type=int, default=int(os.environ.get("SWEEP_SEED", 0)), help="of weights, batches and dropout")
    add("--n_layer", type=int, default=2, help="blocks")
    add("--n_head", type=int, default=2, help="attention heads")
    add("--d_model", type=int, default=64, help="width of the residual stream")
    add("--block_size", type=int, default=64, help="tokens in a sequence")
    add("--activation", choices=["gelu", "gelu_new"], default="gelu", help="of the MLP")
    add("--dropout", type=float, default=0.1)
    add("--lr", type=float, default=1e-3, help="largest learning rate")
    add("--min_lr_ratio", type=float, default=0.1, help="last learning rate, as a fraction of the largest")
    add("--warmup_iters", type=int, default=20, help="steps until the largest learning rate")
    add("--weight_decay", type=float, default=0.1, help="of linear layers")
    add("--grad_clip", type=float, default=1.0, help="largest norm of the gradients")
    add("--log_every", type=int, default=10, help="steps between two reports")
    add("--eval_every", type=int, default=50, help="steps between two evaluations on held-out bytes")
    add("--eval_batches", type=int, default=8, help="batches of an evaluation")
    add("--checkpoint_every", type=int, default=50, help="steps between two checkpoints")
    add("--like_lab", metavar="FOLDER", help="start from this network of the built-in lab, and take the lab's batches")
    return parser.parse_args()


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n_head, self.dropout = args.n_head, nn.Dropout(args.dropout)
        self.c_attn = nn.Linear(args.d_model, 3 * args.d_model)
        self.c_proj = nn.Linear(args.d_model, args.d_model)

    def forward(self, x):
        batch, length, width = x.shape
        heads = (batch, length, self.n_head, width // self.n_head)
        q, k, v = (part.view(heads).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(heads[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(future, float("-inf")).softmax(dim=-1))
        return self.c_proj((weights @ v).transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.approximate = "tanh" if args.activation == "gelu_new" else "none"
        self.c_fc = nn.Linear(args.d_model, 4 * args.d_model)
        self.c_proj = nn.Linear(4 * args.d_model, args.d_model)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.approximate))


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(args.d_model), Attention(args)
        self.ln_2, self.mlp = nn.LayerNorm(args.d_model), MLP(args)
        self.dropout = nn.Dropout(args.dropout)

    def forward(self, x):
        x = x + self.dropout(self.attn(self.ln_1(x)))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    """GPT-2 with the names of nanoGPT and of the Hugging Face Hub; the output layer is the table of tokens."""

    def __init__(self, args, vocab_size=256):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, args.d_model)
        self.wpe = nn.Embedding(args.block_size, args.d_model)
        self.dropout = nn.Dropout(args.dropout)
        self.h = nn.ModuleList(Block(args) for _ in range(args.n_layer))
        self.ln_f = nn.LayerNorm(args.d_model)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                # Layers that add to the residual stream begin smaller, as in GPT-2.
                residual = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * args.n_layer) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        """The mean loss in nats."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.wte(tokens) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Data:
    """Windows of a text: random ones to train on, evenly spread ones of the last tenth to evaluate on."""

    def __init__(self, args, device, starts=None):
        with open(args.data, "rb") as file:
            tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
        cut = len(tokens) - len(tokens) // 10
        self.train, self.held_out = tokens[:cut], tokens[cut:]
        self.args, self.device, self.starts = args, device, starts or random_starts

    def batch(self, step):
        args, last = self.args, len(self.train) - self.args.block_size - 1
        return self.windows(self.train, self.starts(args.seed, step, args.batch_size, last))

    def evaluation(self):
        args, last = self.args, len(self.held_out) - self.args.block_size - 1
        count = args.eval_batches * args.batch_size
        starts = [last * index // max(count - 1, 1) for index in range(count)]
        for first in range(0, count, args.batch_size):
            yield self.windows(self.held_out, starts[first:first + args.batch_size])

    def windows(self, tokens, starts):
        windows = torch.stack([tokens[start:start + self.args.block_size + 1] for start in starts]).to(self.device)
        return windows[:, :-1], windows[:, 1:]


def random_starts(seed, step, count, last):
    """Depends on the seed and the step alone, so that a resumed training reads the same."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    return torch.randint(last + 1, (count,), generator=generator).tolist()


def learning_rate(args, step):
    """Linear warm-up from 0, then half a cosine."""
    if step < args.warmup_iters:
        return args.lr * step / args.warmup_iters
    passed = min((step - args.warmup_iters) / max(args.iters - args.warmup_iters, 1), 1.0)
    least = args.lr * args.min_lr_ratio
    return least + 0.5 * (1 + math.cos(math.pi * passed)) * (args.lr - least)


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    losses = [model(*batch).item() for batch in data.evaluation()]
    model.train()
    return sum(losses) / len(losses)


def main():
    args = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    model, starts = GPT(args), None
    if args.like_lab:
        import lab
        lab.load(model, args.like_lab)
        starts = lab.starts
    model, data = model.to(device), Data(args, device, starts)
    decayed, others = [], []
    for name, parameter in model.named_parameters():
        is_linear = parameter.dim() > 1 and name not in ("wte.weight", "wpe.weight")
        (decayed if is_linear else others).append(parameter)
    groups = [{"params": decayed, "weight_decay": args.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)

    sweep.torch.load(model=model, optimizer=optimizer)
    until = sweep.until(args.iters)
    began, tokens = time.perf_counter(), 0
    for step in sweep.steps(args.iters):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args, step)
        inputs, targets = data.batch(step)
        loss = model(inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()

        done, tokens = step + 1, tokens + inputs.numel()
        if done % args.log_every == 0 or done == until:
            sweep.report(done, loss=loss.item(), lr=optimizer.param_groups[0]["lr"])
        if done % args.eval_every == 0 or done == until:
            sweep.report(done, val_loss=evaluate(model, data))
        if sweep.should_stop() or done % args.checkpoint_every == 0 or done == until:
            sweep.torch.save(step=step, model=model, optimizer=optimizer)
    if tokens:
        sweep.report(tokens_per_s=tokens / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
