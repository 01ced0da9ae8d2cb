"""A class that keeps its parser, options from a list of dictionaries, and a decorator."""
import argparse
import functools

OPTIONS = [
    {"name": "--epochs", "type": int, "default": 3},
    {"name": "--lr", "type": float, "default": 1e-2},
    dict(name="--save_dir", default="runs" + "/" + "exp"),
]


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        print("begin")
        return function(*args, **kwargs)
    return wrapper


class Trainer:
    losses = {"mse": 1, "l1": 2}

    def __init__(self):
        self.parser = argparse.ArgumentParser()
        for option in OPTIONS:
            option = dict(option)
            self.parser.add_argument(option.pop("name"), **option)
        self._add("amp", action="store_true")
        self._add("loss", choices=tuple(self.losses), default="mse")

    def _add(self, name, **kwargs):
        self.parser.add_argument("--" + name, **kwargs)

    @logged
    def run(self):
        self.args = self.parser.parse_args()


def main():
    Trainer().run()


main()
