"""It is executed in a function."""
lr = 0.1
bs = 8
seed = 1337


def configure():
    exec(open("configurator.py").read(), globals())


if __name__ == "__main__":
    configure()
