"""Lists, enumerations and required flags."""
import enum
import os

from absl import app, flags


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


flags.DEFINE_enum("arch", "vit", ("resnet", "vit"), "Architecture.", short_name="a")
flags.DEFINE_enum_class("mode", Mode.TRAIN, Mode, "Mode.")
flags.DEFINE_list("names", "a,b", "Names.")
flags.DEFINE_spaceseplist("words", ["x", "y"], "Words.")
flags.DEFINE_multi_integer("many", [1, 2], "Numbers.")
flags.DEFINE_string("out", None, "Folder.", required=True)
flags.DEFINE_integer("size", None, "Size.")


def main(argv):
    del argv
    print(flags.FLAGS.arch)


if __name__ == "__main__":
    app.run(main)
