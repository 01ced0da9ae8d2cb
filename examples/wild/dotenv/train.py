"""A job of a container, which takes its settings from the environment and a file of defaults."""

import os

from dotenv import load_dotenv

load_dotenv()
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.1"))
EPOCHS = int(os.getenv("EPOCHS", 2))
SCALE = float(os.environ["SCALE"])
SEED = int(os.environ.get("SEED", "0"))

if __name__ == "__main__":
    for epoch in range(EPOCHS):
        print(f"epoch {epoch}: rmse {LEARNING_RATE * SCALE * (epoch + 1) + SEED:.3f}")
