from dataclasses import dataclass

import draccus


@dataclass
class Config:
    lr: float
    seed: int = 0


config = draccus.parse(config_class=Config)
