import sweep

params = sweep.params(lr=1e-3, depth=4, sizes=[1, 2], name="x", nothing=None)
