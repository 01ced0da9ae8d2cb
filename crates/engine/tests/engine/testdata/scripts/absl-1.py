from absl import app, flags, logging

FLAGS = flags.FLAGS
flags.DEFINE_float("learning_rate", 1e-3, "The rate.", lower_bound=0.0)
flags.DEFINE_integer("batch_size", 128, "The size of a batch.")
flags.DEFINE_bool("use_amp", False, "Mixed precision.")
flags.DEFINE_boolean("nesterov", True, "")
flags.DEFINE_string("workdir", None, "The folder.")
flags.DEFINE_enum("optimizer", "adam", ["adam", "sgd"], "The optimizer.")
flags.DEFINE_list("sizes", ["64", "64"], "Sizes.")
flags.DEFINE_multi_string("tag", [], "Tags.")
flags.mark_flag_as_required("workdir")


def main(argv):
    del argv
    logging.info("%s", FLAGS.learning_rate)


if __name__ == "__main__":
    app.run(main)
