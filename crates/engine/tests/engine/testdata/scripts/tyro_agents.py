from dataclasses import dataclass


@dataclass
class Agent:
    lr: float = 1e-2
    gamma: float = 0.9
