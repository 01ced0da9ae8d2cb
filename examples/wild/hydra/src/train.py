"""Hydra with its configuration beside the sources, as in lightning-hydra-template."""
import hydra


@hydra.main(version_base=None, config_path="../configs", config_name="train")
def main(config):
    for epoch in range(config.trainer.max_epochs):
        print(f"epoch {epoch}: val/loss={config.model.lr * (epoch + 1)}")
    print(f"test/acc={0.5 + config.model.lr}")


main()
