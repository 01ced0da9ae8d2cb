using ArgParse
s = ArgParseSettings()
@add_arg_table! s begin
    "--optimizer"
        help = "adam or sgd"
        range_tester = x -> x in ["adam", "sgd"]
        default = "adam"
    "--momentum"
        arg_type = Float64
        default = 0.9
end
