"""Functions that read them, with defaults of constants."""
import os

DEFAULT_LR = 0.01


def env(name, default):
    return type(default)(os.environ.get(name, default))


LR = env("LR", DEFAULT_LR)
MODE = env("MODE", "fast")
EPOCHS = env("EPOCHS", 3)
print(LR)
