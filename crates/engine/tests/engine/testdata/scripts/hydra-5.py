"""Groups in the store, and a list of defaults in a class."""
from dataclasses import dataclass, field
from typing import Any, List

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class MySQL:
    driver: str = "mysql"
    port: int = 3306


@dataclass
class PostgreSQL:
    driver: str = "postgresql"
    port: int = 5432
    timeout: int = 10


@dataclass
class Config:
    defaults: List[Any] = field(default_factory=lambda: [{"db": "mysql"}])
    db: Any = MISSING
    lr: float = 0.5


cs = ConfigStore.instance()
cs.store(group="db", name="mysql", node=MySQL)
cs.store(group="db", name="postgresql", node=PostgreSQL)
cs.store(name="config", node=Config)


@hydra.main(version_base=None, config_path=None, config_name="config")
def main(cfg):
    print(cfg)


main()
