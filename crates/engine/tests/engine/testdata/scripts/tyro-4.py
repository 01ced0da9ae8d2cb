import dataclasses

import tyro


@dataclasses.dataclass
class Base:
    lr: float = 0.1
    seed: int = 0


@dataclasses.dataclass
class Derived(Base):
    lr: float = 0.5
    depth: int = 2


print(tyro.cli(Derived, default=Derived(seed=3), description="x"))
