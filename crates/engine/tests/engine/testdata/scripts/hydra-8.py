"""All kinds of values."""
import hydra


@hydra.main(version_base=None, config_path="conf", config_name="values")
def main(cfg):
    pass


if __name__ == "__main__":
    main()
