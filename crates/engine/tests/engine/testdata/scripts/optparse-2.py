import optparse


def main():
    p = optparse.OptionParser()
    p.add_option("--epochs", type="int")
    p.add_option("--momentum", type="float")
    p.add_option("--amp", action="store_true")
    p.set_defaults(epochs=10, momentum=0.9)
    (opts, _) = p.parse_args()
    print(opts)


if __name__ == "__main__":
    main()
