"""Optional and lists."""
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Optional

import draccus


@dataclass
class Config:
    steps: int = 100
    output_dir: Optional[Path] = None
    dims: List[int] = field(default_factory=lambda: [8, 8])
    resume: bool = False


def main():
    config = draccus.parse(config_class=Config)


main()
