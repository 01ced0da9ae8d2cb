"""No configuration at all: all is given on the command line."""
import hydra


@hydra.main(version_base=None)
def main(cfg):
    print(cfg)


if __name__ == "__main__":
    main()
