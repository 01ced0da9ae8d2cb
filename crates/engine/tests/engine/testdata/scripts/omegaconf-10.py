"""A part is made by code that is not there."""
from omegaconf import OmegaConf

from nowhere import defaults

config = OmegaConf.merge(OmegaConf.create({"lr": 0.1, "seed": 0}), defaults(), OmegaConf.from_cli())
