"""Merged into what there is."""
import torch
from omegaconf import OmegaConf

config = OmegaConf.create({"lr": 0.1})
config.merge_with({"wd": 0.01})
config = OmegaConf.merge(config, OmegaConf.from_cli())
torch.manual_seed(0)
