"""Defaults that are computed from constants."""
from absl import app, flags

DIM = 64
flags.DEFINE_integer("dim", DIM, "Width of\n  the embedding.")
flags.DEFINE_integer("hidden", 4 * DIM, f"{4 * DIM}")
flags.DEFINE_float("temperature", 10 ** -1, "Of the softmax.")


def main(argv):
    pass


if __name__ == "__main__":
    app.run(main)
