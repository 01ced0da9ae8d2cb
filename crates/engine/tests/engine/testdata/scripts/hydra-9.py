"""Groups in groups, whose parts are elsewhere; the configuration comes first."""
import hydra
from omegaconf import OmegaConf


@hydra.main(version_base="1.1", config_path="conf/nested", config_name="main")
def main(cfg):
    OmegaConf.resolve(cfg)


if __name__ == "__main__":
    main()
