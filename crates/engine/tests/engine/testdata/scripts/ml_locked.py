import ml_collections


def get_config() -> ml_collections.ConfigDict:
    """Returns the configuration."""
    config = ml_collections.ConfigDict()
    config.seed = 1
    config.dropout = 0.1
    config.temperature = 1.0
    with config.unlocked():
        config.eval_every = 100
    config.lock()
    return config
