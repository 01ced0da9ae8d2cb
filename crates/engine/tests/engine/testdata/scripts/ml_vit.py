"""A configuration of a vision transformer."""
import ml_collections


def get_optim():
    optim = ml_collections.ConfigDict()
    optim.name = "adamw"
    optim.weight_decay = 0.1
    return optim


def get_config():
    config = ml_collections.ConfigDict()
    config.dataset = "cifar10"
    config.batch = 512
    config.hidden = 64 * 3
    config.lr = 3e-3
    config.shuffle = True
    config.total_steps = 10_000
    config.warmup = None
    config.widths = (64, 128)
    config.optim = get_optim()
    return config
