"""Helpers for mutable defaults."""
from dataclasses import dataclass
from typing import List

from simple_parsing import ArgumentParser
from simple_parsing.helpers import list_field


@dataclass
class Config:
    sizes: List[int] = list_field(1, 2)
    lr: float = 0.3
    debug: bool = False


parser = ArgumentParser(add_option_string_dash_variants=False)
parser.add_arguments(Config, "config")
args, unknown = parser.parse_known_args()
