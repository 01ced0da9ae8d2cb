"""A trainer whose command line is merged with its defaults."""

from omegaconf import OmegaConf

DEFAULTS = OmegaConf.create(
    {
        "seed": 0,
        "model": {"depth": 2, "widths": [8, 8], "name": "mlp"},
        "optimizer": {"lr": 0.1, "nesterov": False},
    }
)


def main():
    config = OmegaConf.merge(DEFAULTS, OmegaConf.from_cli())
    loss = config.optimizer.lr * sum(config.model.widths) + config.model.depth + config.seed
    print(f"test_loss={loss + (0.5 if config.optimizer.nesterov is True else 0)}")


if __name__ == "__main__":
    main()
