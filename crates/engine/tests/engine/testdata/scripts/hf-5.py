"""A parser with options of its own, of one class and a list of classes."""
from dataclasses import dataclass, field
from typing import Optional

import torch
from transformers import AutoModel, HfArgumentParser


@dataclass
class ScriptArguments:
    """The arguments for the DPO training script."""

    # data parameters
    beta: Optional[float] = field(default=0.1, metadata={"help": "the beta parameter for DPO loss"})
    max_length: Optional[int] = field(default=512, metadata={"help": "max length of each sample"})
    sanity_check: Optional[bool] = field(default=False, metadata={"help": "only train on 1000 samples"})


if __name__ == "__main__":
    parser = HfArgumentParser([ScriptArguments])
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--tag", action="append", default=[])
    script_args = parser.parse_args_into_dataclasses()[0]
