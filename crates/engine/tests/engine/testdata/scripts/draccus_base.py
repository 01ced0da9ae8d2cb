from dataclasses import dataclass


@dataclass
class Base:
    name: str = "läuft"
    lr: float = 0.1
