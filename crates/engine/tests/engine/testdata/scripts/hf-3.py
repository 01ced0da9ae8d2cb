"""The arguments of the trainer are those of the package."""
from dataclasses import dataclass, field

from transformers import HfArgumentParser, TrainingArguments


@dataclass
class ModelArguments:
    model: str
    lr: float = 2e-4


def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()


if __name__ == "__main__":
    main()
