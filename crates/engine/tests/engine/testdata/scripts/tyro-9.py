"""A default that is an instance, and values of a property."""
import dataclasses

import tyro


@dataclasses.dataclass
class Env:
    id: str = "Hopper-v4"
    num_envs: int = 1


@dataclasses.dataclass
class Config:
    env: Env
    lr: float = 1e-4
    hidden_sizes: tuple[int, ...] = (32, 32)
    seed: int = 0
    batch: int = 64

    @property
    def per_env(self):
        return self.batch // self.env.num_envs


PRESET = Config(env=Env("Ant-v4", 8), lr=1e-3)

if __name__ == "__main__":
    config = tyro.cli(Config, default=dataclasses.replace(PRESET, batch=128), description=__doc__)
