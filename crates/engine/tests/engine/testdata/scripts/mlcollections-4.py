"""The file has an argument."""
from absl import app
from absl import flags
from ml_collections.config_flags import config_flags

FLAGS = flags.FLAGS
config_flags.DEFINE_config_file("config", "ml_choice.py:small")
flags.DEFINE_integer("seed", 0, "Seed.")


def main(_):
    print(FLAGS.config)


if __name__ == "__main__":
    app.run(main)
