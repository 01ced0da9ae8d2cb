import os

LR = float(os.environ.get("LR", "0.1"))
EPOCHS = int(os.getenv("EPOCHS", 3))
OPTIMIZER = os.environ["OPTIMIZER"]
HOME = os.environ["HOME"]
TOKEN = os.environ.get("HUB_TOKEN")
print(f"loss={LR}")
