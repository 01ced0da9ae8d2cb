"""Required arguments are positions."""
from jsonargparse import CLI


def main(data: str, lr: float = 0.1):
    pass


if __name__ == "__main__":
    CLI(main)
