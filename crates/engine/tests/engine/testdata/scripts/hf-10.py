"""Low-rank adapters: lists by functions, and metadata by constants."""
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence

import peft
from transformers import HfArgumentParser

HELP = {"help": "rank"}


def targets():
    return ["q_proj", "v_proj"]


@dataclass
class LoraArguments:
    lr: float = 0.1
    lora_r: int = field(default=8, metadata=HELP)
    lora_alpha: int = field(default=16)
    target_modules: List[str] = field(default_factory=targets)
    use_lora: bool = False
    bf16: bool = True


if __name__ == "__main__":
    (arguments,) = HfArgumentParser((LoraArguments,)).parse_args_into_dataclasses()
