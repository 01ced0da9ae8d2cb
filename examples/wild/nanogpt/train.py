"""A script whose parameters are its global variables, as in nanoGPT."""
import os

learning_rate = 6e-4
max_iters = 3
dataset = "tiny"
seed = 1337
compile = True
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec(open("configurator.py").read())
size = float(open(os.path.join("data", dataset, "train.txt")).read())
for iteration in range(max_iters):
    print(f"step {iteration}: train loss {size * learning_rate:.4f}, val loss {2 * size * learning_rate:.4f}")
    print(f"iter {iteration}: loss {size / (iteration + 1):.4f}, time 1.00ms, mfu 1.20%")
os.makedirs("out", exist_ok=True)
open("out/ckpt.pt", "w").write("weights")
