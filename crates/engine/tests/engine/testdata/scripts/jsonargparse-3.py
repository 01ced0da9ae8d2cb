from dataclasses import dataclass

from jsonargparse import auto_cli


@dataclass
class Data:
    batch: int = 32


def train(lr: float = 0.1, data: Data = Data()):
    pass


def test(split: str = "val"):
    pass


auto_cli([train, test])
