"""Tuples that are taken apart, and computed numbers."""
betas1, betas2 = 0.9, 0.95
warmup = 100
lr, total = 6e-4, warmup * 60
exec(open("./configurator.py").read())
print("loss=%g" % lr)
