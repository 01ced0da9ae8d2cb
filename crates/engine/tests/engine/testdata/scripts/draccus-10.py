"""A dictionary, which has no simple form."""
from dataclasses import dataclass, field
from typing import Dict, List

import draccus


@dataclass
class Config:
    lr: float = 0.1
    sizes: Dict[str, int] = field(default_factory=dict)
    weights: List[float] = field(default_factory=lambda: [0.5] * 2)


if __name__ == "__main__":
    draccus.parse(Config)
