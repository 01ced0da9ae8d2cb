import fire


def train(lr=0.1):
    return lr


def evaluate(split="val"):
    return split


fire.Fire({"train": train, "eval": evaluate})
