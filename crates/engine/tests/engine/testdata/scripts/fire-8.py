"""A dictionary, whose names have dashes elsewhere."""
from fire import Fire


def ppo(clip=0.2, lr=3e-4):
    pass


def sac(alpha=0.2, tau=5e-3):
    pass


def main():
    Fire({"ppo": ppo, "sac": sac}, name="agents")


if __name__ == "__main__":
    main()
