from dataclasses import dataclass


@dataclass
class Training:
    lr: float = 0.1
    steps: int = None


@dataclass
class Extra:
    alpha: float = 0.5
