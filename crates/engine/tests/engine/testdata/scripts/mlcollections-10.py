"""The script has the folder of the file by its own."""
import os

from absl import app, flags
from ml_collections import config_flags

flags.DEFINE_enum("mode", "train", ["train", "eval"], "What is done.")
config_flags.DEFINE_config_file("config", os.path.join("", "ml_vit.py"), "File.")


def main(argv):
    pass


if __name__ == "__main__":
    app.run(main)
