"""Flags in another module, of which the run shows those of the script only."""
from absl import app, flags

import absl_options  # noqa: F401

FLAGS = flags.FLAGS
flags.DEFINE_float("lr", 0.1, "Rate.")


def main(_):
    print(FLAGS.lr, FLAGS.steps)


if __name__ == "__main__":
    app.run(main)
