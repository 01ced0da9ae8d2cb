"""The command line names the file."""
from omegaconf import OmegaConf

cli = OmegaConf.from_cli()
config = OmegaConf.load(cli.get("config", "omegaconf.yaml"))
config = OmegaConf.merge(config, cli)
print(config)
