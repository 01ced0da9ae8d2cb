import enum

import absl.app
import absl.flags as flags


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


_LR = flags.DEFINE_float("lr", default=0.1, help="rate")
_MODE = flags.DEFINE_enum_class("mode", Mode.TRAIN, Mode, "mode")
_STEPS = flags.DEFINE_integer("steps", None, "steps", required=True)


def main(_):
    print(_LR.value)


if __name__ == "__main__":
    absl.app.run(main)
