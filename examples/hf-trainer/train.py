"""A small GPT-2 of Hugging Face transformers on the bytes of a text, with its `Trainer`.

    python3 train.py --data kjv.txt --steps 40

`Callback` reports what the trainer logs and its checkpoints, and ends the training early when `sweep` asks for it.
recipes/hf-trainer.yaml runs this script.
"""

import argparse
import os

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import sweep
from sweep.huggingface import Callback


class Windows(Dataset):
    """Windows of a text, one after the other."""

    def __init__(self, tokens, length):
        self.tokens, self.length = tokens, length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, index):
        window = self.tokens[index * self.length:(index + 1) * self.length]
        return {"input_ids": window, "labels": window}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="kjv.txt")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()

    with open(args.data, "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    cut = len(tokens) - len(tokens) // 10
    settings = TrainingArguments(
        output_dir="checkpoints", seed=int(os.environ.get("SWEEP_SEED", 0)),
        max_steps=sweep.until(args.steps), learning_rate=args.lr, per_device_train_batch_size=8,
        per_device_eval_batch_size=8, logging_steps=5, eval_strategy="steps", eval_steps=20,
        save_strategy="steps", save_steps=20, save_total_limit=2, report_to=[], disable_tqdm=True,
    )
    torch.manual_seed(settings.seed)
    config = GPT2Config(vocab_size=256, n_positions=64, n_embd=args.width, n_layer=2, n_head=2,
                        bos_token_id=None, eos_token_id=None)
    trainer = Trainer(GPT2LMHeadModel(config), settings, train_dataset=Windows(tokens[:cut], 64),
                      eval_dataset=Windows(tokens[cut:cut + 64 * 64], 64), callbacks=[Callback()])
    trainer.train(resume_from_checkpoint=sweep.resume())


if __name__ == "__main__":
    main()
