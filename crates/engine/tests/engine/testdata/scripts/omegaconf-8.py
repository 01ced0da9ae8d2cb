"""A text of YAML, and a class that keeps the configuration."""
from omegaconf import DictConfig, OmegaConf

DEFAULT = """
seed: 1
train:
  lr: 1e-5  # small
  bs: 16
  sched: ${train.lr}
"""


class Trainer:
    def __init__(self, config: DictConfig):
        self.config = config


def main():
    config = OmegaConf.merge(OmegaConf.create(DEFAULT), OmegaConf.from_cli())
    Trainer(config)


main()
