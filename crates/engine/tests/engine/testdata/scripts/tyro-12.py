import tyro
from tyro.extras import subcommand_cli_from_dict


def train(lr: float = 0.1):
    pass


def evaluate(checkpoint: str, split: str = "val"):
    pass


if __name__ == "__main__":
    subcommand_cli_from_dict({"train": train, "eval_model": evaluate})
