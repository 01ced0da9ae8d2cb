"""Members of enumerations: by values, by names, and by functions."""
import argparse
import enum


class Mode(enum.Enum):
    TRAIN = "train"
    EVAL = "eval"

    def __str__(self):
        return self.value


class Act(enum.Enum):
    RELU = enum.auto()
    GELU = enum.auto()


class Kind(str, enum.Enum):
    A = "a"
    B = "b"


parser = argparse.ArgumentParser()
parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.TRAIN)
parser.add_argument("--act", type=lambda name: Act[name], choices=list(Act), default=Act.GELU)
parser.add_argument("--level", type=int, choices=[a.value for a in Act], default=Act.RELU.value)
parser.add_argument("--kind", type=Kind, default=Kind.B)
args = parser.parse_args()
