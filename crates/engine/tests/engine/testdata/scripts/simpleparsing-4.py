"""Two groups of one parser."""
import dataclasses
import simple_parsing


@dataclasses.dataclass
class Data:
    path: str


@dataclasses.dataclass
class Optim:
    lr: float = 0.01
    nesterov: bool = True


def main():
    parser = simple_parsing.ArgumentParser(description="x")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_arguments(Data, "data")
    parser.add_arguments(Optim, dest="optim")
    args = parser.parse_args()


if __name__ == "__main__":
    main()
