"""A class of the configuration made by `update` and nested dictionaries."""
from absl import app
from ml_collections import ConfigDict, config_flags


def build():
    config = ConfigDict()
    config.lr = 0.1
    config.update({"steps": 3})
    return config


FLAG = config_flags.DEFINE_config_dict("config", build())


def main(argv):
    print(FLAG.value)


if __name__ == "__main__":
    app.run(main)
