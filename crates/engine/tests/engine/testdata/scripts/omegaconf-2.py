from dataclasses import dataclass, field

from omegaconf import MISSING, OmegaConf


@dataclass
class Opt:
    lr: float = 0.1
    momentum: float = 0.9


@dataclass
class Config:
    opt: Opt = field(default_factory=Opt)
    epochs: int = 10
    seed: int = 0


def main():
    schema = OmegaConf.structured(Config)
    cli = OmegaConf.from_cli()
    config = OmegaConf.merge(schema, cli)
    print(OmegaConf.to_yaml(config))


if __name__ == "__main__":
    main()
