n = length(ARGS) >= 1 ? parse(Int, ARGS[1]) : 100
lr = length(ARGS) > 1 ? parse(Float64, ARGS[2]) : 0.1
println("loss=", lr)
