"""A trainer whose function is the command line."""

import fire


def train(lr=0.1, layers=(64, 64), optimizer="sgd", amp=False, seed=0):
    width = sum(layers)
    loss = lr * width + seed + (100 if optimizer == "adam" else 0) + (1000 if amp is True else 0)
    print(f"final: val loss {loss:.4f}")


if __name__ == "__main__":
    fire.Fire(train)
