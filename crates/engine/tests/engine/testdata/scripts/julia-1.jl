#!/usr/bin/env julia
using ArgParse, Random

function parse_commandline()
    s = ArgParseSettings(description = "Trains.")
    @add_arg_table! s begin
        "--lr"
            help = "learning rate"
            arg_type = Float64
            default = 1e-3
        "--epochs", "-e"
            arg_type = Int
            default = 10
        "-b"
            help = "size of a batch"
            arg_type = Int
            default = 32
        "--model"
            default = "mlp"
        "--cuda"
            help = "use a GPU"
            action = :store_true
        "--seed"
            arg_type = Int
            default = 42
        "data"
            required = true
    end
    return parse_args(s)
end
