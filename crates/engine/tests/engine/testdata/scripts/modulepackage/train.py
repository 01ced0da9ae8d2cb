"""Run as `python -m modulepackage.train`."""
from .options import build
from .sizes import WIDTH


def main(argv=None):
    parser = build()
    parser.add_argument("--width", type=int, default=WIDTH)
    args = parser.parse_args(argv)
    print("loss=%g" % args.lr)


if __name__ == "__main__":
    main()
