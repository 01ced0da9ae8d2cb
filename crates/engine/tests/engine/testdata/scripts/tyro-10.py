"""Classes of a module beside it, and a call within a function."""
import tyro

from tyro_agents import Agent


def run(agent: Agent, steps: int = 5):
    print(agent)


def main():
    tyro.cli(run)


main()
