"""Fine-tuning, after the examples of transformers."""
import sys
from dataclasses import dataclass, field
from typing import List, Optional

from transformers import HfArgumentParser


@dataclass
class ModelArguments:
    """The model."""

    model_name: str = field(metadata={"help": "path or name"})
    lr: float = field(default=0.1, metadata={"help": "rate"})
    use_fast: bool = field(default=True)


@dataclass
class DataArguments:
    task: Optional[str] = field(default=None)
    lengths: List[int] = field(default_factory=lambda: [128, 256])
    overwrite: bool = False
    seed: int = 42


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments))
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        model, data = parser.parse_json_file(json_file=sys.argv[1])
    else:
        model, data = parser.parse_args_into_dataclasses()


if __name__ == "__main__":
    main()
