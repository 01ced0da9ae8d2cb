"""Other modules may read more."""
import os

import no_parser_package
from environment_more import ALPHA

gamma = float(os.environ.get("GAMMA", ".99"))
alpha = float(os.environ.get("ALPHA", ALPHA))
