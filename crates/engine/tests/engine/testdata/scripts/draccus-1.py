from dataclasses import dataclass, field
from typing import List, Optional

import draccus


@dataclass
class Opt:
    momentum: float = 0.9
    nesterov: bool = False


@dataclass
class Config:
    lr: float = 0.1
    amp: bool = True
    limit: Optional[int] = None
    sizes: List[int] = field(default_factory=lambda: [1, 2])
    opt: Opt = field(default_factory=Opt)


@draccus.wrap()
def main(config: Config):
    print(config)


if __name__ == "__main__":
    main()
