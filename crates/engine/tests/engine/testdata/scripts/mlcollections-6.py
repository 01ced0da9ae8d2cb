"""The file must be given."""
from absl import app, flags, logging
from clu import platform
import jax
from ml_collections import config_flags

FLAGS = flags.FLAGS
flags.DEFINE_string("workdir", None, "Directory to store model data.")
config_flags.DEFINE_config_file("config", None, "File path to the training hyperparameter configuration.", lock_config=True)


def main(argv):
    if len(argv) > 1:
        raise app.UsageError("Too many command-line arguments.")
    logging.info("JAX process: %d / %d", jax.process_index(), jax.process_count())


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "workdir"])
    app.run(main)
