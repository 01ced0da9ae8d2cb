"""Types of several kinds."""
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal, Optional

import simple_parsing


class Act(Enum):
    RELU = 0
    GELU = 1


@dataclass
class Config:
    act: Act = Act.GELU
    data_dir: Path = Path("data")
    limit: Optional[int] = None
    size: Literal["s", "m"] = "m"


config = simple_parsing.parse(Config)
