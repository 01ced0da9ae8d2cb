#!/usr/bin/env python
"""Fine-tuning the library models for causal language modeling."""
import logging
import os
import sys
from dataclasses import dataclass, field
from typing import Optional

import datasets
import torch
import transformers
from transformers import HfArgumentParser, TrainingArguments


@dataclass
class ModelArguments:
    """
    Arguments pertaining to which model/config/tokenizer we are going to fine-tune, or train from scratch.
    """

    model_name_or_path: Optional[str] = field(
        default=None,
        metadata={"help": ("The model checkpoint for weights initialization. Don't set it to train from scratch.")},
    )
    config_overrides: Optional[str] = field(default=None, metadata={"help": "Override some existing default config settings"})
    use_fast_tokenizer: bool = field(default=True, metadata={"help": "Whether to use a fast tokenizer."})
    torch_dtype: Optional[str] = field(default=None, metadata={"choices": ["auto", "bfloat16"]})

    def __post_init__(self):
        if self.config_overrides is not None and self.model_name_or_path is not None:
            raise ValueError("--config_overrides can't be used in combination with --model_name_or_path")


@dataclass
class DataTrainingArguments:
    dataset_name: Optional[str] = field(default=None, metadata={"help": "The name of the dataset."})
    max_train_samples: Optional[int] = field(default=None)
    streaming: bool = field(default=False, metadata={"help": "Enable streaming mode"})
    block_size: Optional[int] = field(default=None)
    preprocessing_num_workers: int | None = field(default=None)


def main():
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments))
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        model_args, data_args = parser.parse_json_file(json_file=os.path.abspath(sys.argv[1]))
    else:
        model_args, data_args = parser.parse_args_into_dataclasses()


if __name__ == "__main__":
    main()
