"""Values that are changed before."""
from omegaconf import OmegaConf as oc

conf = oc.create(dict(a=dict(lr=0.1, b=2)))
conf.a.lr = 0.5
conf.c = 3
conf = oc.merge(conf, oc.from_cli())
