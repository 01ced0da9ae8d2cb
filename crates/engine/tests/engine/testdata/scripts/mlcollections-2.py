from absl import app
from ml_collections import config_dict, config_flags

CONFIG = config_dict.ConfigDict({"lr": 0.1, "opt": {"name": "adam"}})
_CONFIG = config_flags.DEFINE_config_dict("config", CONFIG)


def main(_):
    print(_CONFIG.value)


app.run(main)
