from omegaconf import OmegaConf

conf = OmegaConf.load("omegaconf.yaml")
conf.merge_with_cli()
conf = OmegaConf.merge(OmegaConf.load("omegaconf.yaml"), OmegaConf.create({"extra": 1}), OmegaConf.from_cli())
