import ml_collections as mlc


def get_config():
    c = mlc.ConfigDict()
    c.name, c.lr, c.rank = "base", 0.1, 4
    return c
