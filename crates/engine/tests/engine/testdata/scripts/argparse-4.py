"""Groups, groups that exclude, and lists."""
import argparse
import json
import pathlib

MODELS = {"resnet": 18, "vgg": 16}
EPOCHS = 3 * 10

p = argparse.ArgumentParser("train")
data = p.add_argument_group("data")
data.add_argument("--root", type=pathlib.Path, default=pathlib.Path("data"))
data.add_argument("--splits", nargs="+", default=["train", "val"])
model = p.add_argument_group(title="model")
model.add_argument("--arch", "-a", choices=sorted(MODELS), default="resnet", help="one of " + ", ".join(MODELS))
model.add_argument("--widths", type=int, nargs=3, default=[64, 128, 256])
model.add_argument("--extra", type=json.loads, default={})
more = p.add_mutually_exclusive_group(required=False)
more.add_argument("--resume", type=str)
more.add_argument("--scratch", action="store_true")
p.add_argument("-e", type=int, default=EPOCHS)
p.add_argument("-v", "--verbose", action="count", default=0)
p.add_argument("--tags", action="append")
p.add_argument("--version", action="version", version="1")
p.add_argument("--mode", action="store_const", const="fast", default="slow")
p.set_defaults(arch="vgg")
args, rest = p.parse_known_args()
