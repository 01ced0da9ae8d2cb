using ArgParse
function settings()
    s = ArgParseSettings(prog="x")
    @add_arg_table! s begin
        "--alpha", "-a"
            # The weight, which "is" a number.
            arg_type = Float64
            default = 0.5
        "--no-cache"
            action = "store_true"
    end
    s
end
