import hydra


@hydra.main(version_base=None, config_path="conf", config_name="hydra")
def main(config):
    print(config)


if __name__ == "__main__":
    main()
