"""Gin beside it."""
from absl import app, flags
import gin

flags.DEFINE_string("base_dir", None, "Base directory.")
flags.DEFINE_multi_string("gin_file", [], "Files.")
flags.DEFINE_multi_string("gin_bindings", [], "Bindings.")
FLAGS = flags.FLAGS


def main(unused_argv):
    gin.parse_config_files_and_bindings(FLAGS.gin_file, FLAGS.gin_bindings)


if __name__ == "__main__":
    flags.mark_flag_as_required("base_dir")
    app.run(main)
