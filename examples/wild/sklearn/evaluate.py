"""k-fold evaluation with the module-level seed of scikit-learn."""
import argparse
import random

parser = argparse.ArgumentParser()
parser.add_argument("--folds", type=int, default=2)
parser.add_argument("--random-state", type=int, default=0)
args = parser.parse_args()
random.seed(args.random_state)
print("Accuracy: %.2f" % (0.5 + args.folds / 100 + args.random_state / 10))
