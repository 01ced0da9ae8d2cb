"""Sequence classification: keys of a dictionary, and checks."""
from dataclasses import dataclass, field
from typing import Optional

from transformers import HfArgumentParser

task_to_keys = {"cola": ("sentence", None), "mnli": ("premise", "hypothesis"), "mrpc": ("sentence1", "sentence2")}


@dataclass
class DataTrainingArguments:
    task_name: Optional[str] = field(default=None, metadata={"choices": list(task_to_keys.keys())})
    max_seq_length: int = field(default=128, metadata={"help": "The maximum total input sequence length."})
    pad_to_max_length: bool = field(default=True)
    overwrite_cache: bool = field(default=False)
    model_revision: str = field(default="main")
    train_file: Optional[str] = field(default=None)

    def __post_init__(self):
        if self.task_name is not None:
            self.task_name = self.task_name.lower()


def main():
    parser = HfArgumentParser((DataTrainingArguments,))
    data_args, = parser.parse_args_into_dataclasses()


if __name__ == "__main__":
    main()
