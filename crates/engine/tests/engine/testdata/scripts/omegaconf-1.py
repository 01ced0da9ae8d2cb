from omegaconf import OmegaConf

base = OmegaConf.create({"lr": 0.1, "opt": {"name": "adam", "betas": [0.9, 0.99]}, "amp": False, "out": "${opt.name}-x"})
config = OmegaConf.merge(base, OmegaConf.from_cli())
print(config.lr)
