from dataclasses import dataclass

import simple_parsing


@dataclass
class Config:
    lr: float = 0.1
    amp: bool = False


print(simple_parsing.parse(Config))
