"""Locks, placeholders and unlocked parts."""
from absl import app, flags
from ml_collections.config_flags import config_flags

config_flags.DEFINE_config_file("config", "ml_locked.py", lock_config=True)
app.run(lambda argv: flags.FLAGS.config)
