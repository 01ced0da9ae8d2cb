import fire


def train(lr=0.1, epochs: int = 3, optimizer="adam", amp=False, sizes=(64, 64), data=None):
    """Trains."""
    print(f"loss={lr * epochs}")


if __name__ == "__main__":
    fire.Fire(train)
