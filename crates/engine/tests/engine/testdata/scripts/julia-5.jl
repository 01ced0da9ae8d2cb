using ArgParse
settings = ArgParseSettings()
add_arg_table!(settings,
    ["--width", "-w"], Dict(:help => "width", :arg_type => Int, :default => 64),
    "--depth", Dict(:arg_type => Int, :default => 3))
parsed = parse_args(settings)
