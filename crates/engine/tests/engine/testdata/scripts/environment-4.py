"""Required, and in a class."""
import os


class Config:
    data = os.environ["DATA"]
    seed = int(os.environ.get("SEED", 0))
    token = os.environ.get("API_TOKEN")
    cuda = os.environ.get("CUDA_VISIBLE_DEVICES", "")


if __name__ == "__main__":
    print(Config.data)
