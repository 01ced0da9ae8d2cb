"""A default that is an instance."""
from dataclasses import dataclass
from simple_parsing import parse


@dataclass
class Config:
    lr: float = 0.1
    batch_size: int = 8


def get():
    return parse(config_class=Config, default=Config(lr=0.5))


print(get())
