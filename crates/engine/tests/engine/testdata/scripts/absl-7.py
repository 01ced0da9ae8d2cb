"""Parsed without `app.run`."""
import sys

from absl import flags

FLAGS = flags.FLAGS
flags.DEFINE_string("game", "pong", "Name.")
flags.DEFINE_integer("num_iterations", 200, "Number.")
flags.DEFINE_float("epsilon", 0.05, "Of exploration.")
flags.DEFINE_bool("use_double", False, "Two networks.")


def main():
    FLAGS(sys.argv)
    print(FLAGS.game)


if __name__ == "__main__":
    main()
