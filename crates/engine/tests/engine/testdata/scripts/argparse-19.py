"""Types: enumerations, functions and lambdas, values that are no finite numbers, other letters."""
import argparse
import enum
import math


class Activation(str, enum.Enum):
    RELU = "relu"
    GELU = "gelu"


PRECISIONS = dict(fp16="half", bf16="bfloat16", fp32="float")
def truth(text): return {"True": True, "False": False}[text]
parser = argparse.ArgumentParser()
parser.add_argument("--amp", choices=list(PRECISIONS), default="bf16")
parser.add_argument("--rank", type=int, default=1 << 3)
parser.add_argument("--act", choices=[a.value for a in Activation], default=Activation.GELU.value)
parser.add_argument("--scale", type=int, choices=[2 ** i for i in range(3)], default=2)
parser.add_argument("--lr", type=lambda s: float(s), default=3e-4)
parser.add_argument("--clip", type=float, default=math.inf)
parser.add_argument("--betas", type=float, nargs="+", default=(0.9, 0.95))
parser.add_argument("--name", default="läuft", help="Größe – 名前")
parser.add_argument("--ema", type=truth, default=True)
parser.add_argument("--sched", choices=["cosine", "linear"], help="none by default")
if __name__ == "__main__":
    args = parser.parse_args()
