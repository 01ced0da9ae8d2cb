"""The options are in a module of the folder, and what the script works with is not installed."""
from local_options import get_args

import no_such_package


def main():
    args = get_args()
    no_such_package.train(args)


if __name__ == "__main__":
    main()
