"""A trainer with the flags of absl, and a configuration of ml_collections."""

from absl import app, flags
from ml_collections import config_flags

FLAGS = flags.FLAGS
flags.DEFINE_bool("amp", True, "Mixed precision.")
flags.DEFINE_integer("steps", 3, "Number of steps.", lower_bound=1)
_CONFIG = config_flags.DEFINE_config_file("config", "configs/base.py", "The configuration.")


def main(argv):
    del argv
    config = _CONFIG.value
    for step in range(FLAGS.steps):
        print(f"step {step} loss {config.optim.lr * (step + 1) + config.seed + (0 if FLAGS.amp else 10)}")


if __name__ == "__main__":
    app.run(main)
