lr = parse(Float64, get(ENV, "LR", "0.1"))
steps = parse(Int, get(ENV, "STEPS", "100"))
home = ENV["HOME"]
