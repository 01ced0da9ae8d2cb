import ml_base


def get_config():
    config = ml_base.get_config()
    config.lr /= 10
    config["total"] = config.rank * 10
    return config
