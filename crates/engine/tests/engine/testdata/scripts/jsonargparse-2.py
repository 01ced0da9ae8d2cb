import jsonargparse


class Model:
    def __init__(self, lr: float = 0.1, width: int = 64):
        self.lr = lr


parser = jsonargparse.ArgumentParser()
parser.add_argument("--config", action="config")
parser.add_argument("--seed", type=int, default=1)
parser.add_class_arguments(Model, "model")
config = parser.parse_args()
