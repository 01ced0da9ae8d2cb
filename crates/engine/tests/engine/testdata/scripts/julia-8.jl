seed = isempty(ARGS) ? 1 : parse(Int, first(ARGS))
