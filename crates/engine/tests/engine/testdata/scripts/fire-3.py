import fire


class Trainer:
    def __init__(self, lr=0.1, width=64):
        self.lr = lr

    def train(self, epochs=3):
        return self.lr * epochs

    def evaluate(self, split="val"):
        return split


if __name__ == "__main__":
    fire.Fire(Trainer)
