using ArgParse
s = ArgParseSettings()
@add_arg_table s begin
    "--eta"; arg_type = Float64; default = 0.1
    "--iters"; arg_type = Int; default = 1_000
end
args = parse_args(ARGS, s)
