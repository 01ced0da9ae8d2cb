from absl import flags

flags.DEFINE_integer("steps", 100, "Steps.")
flags.DEFINE_float("decay", 0.0, "Decay.")
