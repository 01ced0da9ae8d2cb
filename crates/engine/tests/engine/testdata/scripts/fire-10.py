"""Defaults that are constants, and a lambda."""
import fire

LR, WIDTHS = 1e-3, (64, 32)
train = lambda lr=LR, widths=WIDTHS, optim="adam", seed=3, flag=not False, out="null": lr
if __name__ == "__main__":
    fire.Fire(component=train)
