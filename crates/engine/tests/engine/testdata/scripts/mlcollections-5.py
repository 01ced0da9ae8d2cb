"""The configuration is in the script."""
import ml_collections
from absl import app, flags
from ml_collections import config_flags

config = ml_collections.ConfigDict(dict(gamma=0.99, net={"layers": 2, "norm": False}))
config_flags.DEFINE_config_dict("c", config, lock_config=False)
flags.DEFINE_bool("verbose", False, "Prints.")
app.run(lambda argv: print(config))
