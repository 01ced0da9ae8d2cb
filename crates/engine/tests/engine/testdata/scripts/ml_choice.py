from ml_collections import config_dict


def get_config(name=None):
    config = config_dict.ConfigDict({"lr": 0.1})
    config.depth = {"small": 2, "big": 12}[name or "small"]
    return config
