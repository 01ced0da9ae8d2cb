import ml_collections


def get_config():
    config = ml_collections.ConfigDict()
    config.seed = 42
    config.optim = ml_collections.ConfigDict({"name": "adam", "lr": 0.1})
    return config
