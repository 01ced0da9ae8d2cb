"""A schema in the store, which a file fills, in a folder beside."""
from dataclasses import dataclass

import hydra
from hydra.core.config_store import ConfigStore


@dataclass
class Model:
    dropout: float = 0.1
    heads: int = 8


@dataclass
class Config:
    model: Model = Model
    steps: int = 100


ConfigStore.instance().store(name="base_config", node={"model": {"dropout": 0.1, "heads": 8}, "steps": 100})


@hydra.main(config_path="conf/schema", config_name="schema", version_base="1.2")
def run(cfg):
    pass


if __name__ == "__main__":
    run()
