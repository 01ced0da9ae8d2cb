"""A recurrent network that predicts the next byte of a text, with Lightning.

    python3 train.py --data kjv.txt --steps 60

`Logger` reports what the module logs, and `Callback` saves and ends early when `sweep` asks for it. recipes/lightning.yaml
runs this script.
"""

import argparse
import os

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import sweep
from sweep.lightning import Callback, Logger


class Windows(Dataset):
    """Windows of a text, one after the other."""

    def __init__(self, tokens, length):
        self.tokens, self.length = tokens, length

    def __len__(self):
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, index):
        window = self.tokens[index * self.length:(index + 1) * self.length + 1]
        return window[:-1], window[1:]


class NextByte(L.LightningModule):
    def __init__(self, width, lr):
        super().__init__()
        self.lr = lr
        self.table, self.cell = nn.Embedding(256, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 256)

    def loss(self, batch):
        inputs, targets = batch
        states, _ = self.cell(self.table(inputs))
        return nn.functional.cross_entropy(self.head(states).flatten(0, 1), targets.flatten())

    def training_step(self, batch, _):
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="kjv.txt")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()

    L.seed_everything(int(os.environ.get("SWEEP_SEED", 0)))
    with open(args.data, "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    cut = len(tokens) - len(tokens) // 10
    training = DataLoader(Windows(tokens[:cut], 64), batch_size=16, shuffle=True)
    held_out = DataLoader(Windows(tokens[cut:], 64), batch_size=16)
    trainer = L.Trainer(
        max_steps=sweep.until(args.steps), val_check_interval=20, limit_val_batches=4, log_every_n_steps=5,
        accelerator="auto", devices=1, logger=Logger(), callbacks=[Callback(every_n_steps=20)],
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(NextByte(args.width, args.lr), training, held_out, ckpt_path=sweep.resume())


if __name__ == "__main__":
    main()
