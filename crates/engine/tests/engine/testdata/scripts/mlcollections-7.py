"""A file that changes the configuration of another one."""
from absl import app
from ml_collections import config_flags

_CONFIG = config_flags.DEFINE_config_file("config", default="ml_derived.py")

if __name__ == "__main__":
    app.run(lambda _: print(_CONFIG.value))
