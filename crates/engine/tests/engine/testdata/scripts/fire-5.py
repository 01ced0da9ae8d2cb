"""Fine-tuning; what it needs is not installed."""
import os
import sys
from typing import List

import fire
import torch
import transformers


def train(
    # model/data params
    base_model: str,  # the only required argument
    output_dir: str = "./out",
    micro_batch_size: int = 4,
    num_epochs: int = 3,
    learning_rate: float = 3e-4,
    cutoff_len: int = 256,
    lora_r: int = 8,
    lora_dropout: float = 0.05,
    add_eos_token: bool = False,
    wandb_project: str = "",
    resume: str = None,
):
    assert base_model, "Please specify a --base_model, e.g. --base_model='huggyllama/llama-7b'"


if __name__ == "__main__":
    fire.Fire(train)
