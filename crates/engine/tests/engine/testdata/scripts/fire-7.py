"""A class with a base, static methods and what is hidden."""
import fire


class Base:
    def __init__(self, name="base", lr=0.1):
        self.name = name
        self._cache = {}

    def evaluate(self, split="val"):
        return split

    def _helper(self):
        pass


class Trainer(Base):
    def fit(self, epochs=10, batch_size=32):
        return epochs


if __name__ == "__main__":
    fire.Fire(Trainer)
