"""A configuration in a file, with placeholders and values of others."""
from absl import app, flags
from ml_collections import config_flags

import flax

_CONFIG = config_flags.DEFINE_config_file("config", "ml_vit.py", "File of the configuration.", lock_config=True)


def main(argv):
    config = _CONFIG.value
    print(config.lr)


if __name__ == "__main__":
    app.run(main)
