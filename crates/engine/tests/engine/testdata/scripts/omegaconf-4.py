"""A file, then values in the script, then the command line."""
import sys
from pathlib import Path
from omegaconf import OmegaConf

ROOT = Path(__file__).parent


def load():
    base = OmegaConf.load("omegaconf.yaml")
    more = OmegaConf.create({"name": "x"})
    cli = OmegaConf.from_cli()
    return OmegaConf.merge(base, more, cli)


if __name__ == "__main__":
    config = load()
    print(OmegaConf.to_yaml(config))
