"""Flags that are kept in variables."""
from absl import app
from absl import flags
from absl import logging

_DATA = flags.DEFINE_string("data_dir", default="/tmp/mnist", help="Where the data are.")
_BATCH = flags.DEFINE_integer("batch_size", 128, "Size.", lower_bound=1)
_LR = flags.DEFINE_float(name="learning_rate", default=0.1, help="Rate.", lower_bound=0, upper_bound=1)
_MOMENTUM = flags.DEFINE_float("momentum", 0.9, "Momentum.")
_JIT = flags.DEFINE_bool("jit", True, "Compiles.")


def main(unused_argv):
    if _BATCH.value < 1:
        raise app.UsageError("batch")


if __name__ == "__main__":
    app.run(main)
