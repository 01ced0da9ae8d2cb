"""Settings of an image."""
import os
from os import environ

rate = float(os.environ.get("LEARNING_RATE", "0.1"))
batch = int(environ.get("BATCH") or 64)
amp = os.getenv("AMP", "0") == "1"
path = os.environ["PATH"]
rank = int(os.environ["RANK"]) if "RANK" in os.environ else 0
print("loss=%g" % rate)
