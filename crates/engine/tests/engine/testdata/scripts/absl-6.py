"""Several required flags, and loops."""
import sys
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("config_path", None, "")
for name, default in (("seed", 0), ("rank", 4)):
    flags.DEFINE_integer(name, default, name)


def main(_):
    pass


def entry():
    flags.mark_flags_as_required(["config_path"])
    app.run(main)


if __name__ == "__main__":
    entry()
