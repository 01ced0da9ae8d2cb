from absl import app, flags
from ml_collections import config_flags

_CONFIG = config_flags.DEFINE_config_file("config", "mlcollections_config.py", "the configuration", lock_config=True)
flags.DEFINE_string("workdir", "/tmp/work", "the folder")


def main(_):
    print(_CONFIG.value.lr)


if __name__ == "__main__":
    app.run(main)
