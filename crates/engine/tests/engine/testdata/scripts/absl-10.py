"""A default that only the machine knows."""
import multiprocessing

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_float("lr", 1e-3, "Rate.")
flags.DEFINE_integer("workers", multiprocessing.cpu_count(), "Number.")


def main(argv):
    pass


if __name__ == "__main__":
    app.run(main)
