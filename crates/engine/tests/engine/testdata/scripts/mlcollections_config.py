"""The configuration of mlcollections-1.py."""
import ml_collections


def get_config():
    config = ml_collections.ConfigDict()
    config.lr = 0.1
    config.num_epochs = 10
    config.seed = 42
    config.half_precision = False
    config.model = "resnet"
    config.optim = optim = ml_collections.ConfigDict()
    optim.name = "sgd"
    optim.momentum = 0.9
    config.data = ml_collections.ConfigDict(dict(batch=128, shape=(32, 32)))
    return config
