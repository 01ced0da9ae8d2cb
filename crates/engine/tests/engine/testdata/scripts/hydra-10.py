"""The name is that of a constant, and the folder of another one."""
import os
import hydra
from hydra.utils import get_original_cwd

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = "exp_" + "one"


def setup():
    import torch
    torch.manual_seed(0)


@hydra.main(config_path=os.path.join(HERE, "conf", "nested"), config_name=CONFIG, version_base=None)
def main(cfg):
    setup()


if __name__ == "__main__":
    main()
