import os

print("perplexity", 10 * float(os.environ["LR"]))
