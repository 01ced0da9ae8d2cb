"""Classes that derive from each other."""
from dataclasses import dataclass, field

from transformers import HfArgumentParser


@dataclass
class Base:
    lr: float = field(default=1e-3, metadata={"help": "Rate: 100%."})
    warmup_ratio: float = 0.0


@dataclass
class Config(Base):
    packing: bool = True
    output_dir: str = "out"


def parse():
    return HfArgumentParser(Config).parse_args_into_dataclasses()[0]


if __name__ == "__main__":
    parse()
