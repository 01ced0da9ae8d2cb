"""All functions of a file."""
import fire


def train(lr=0.1, dropout=0.5, *args, **kwargs):
    return lr


def encode(text, *, upper=False):
    return text.upper() if upper else text


if __name__ == "__main__":
    fire.Fire()
