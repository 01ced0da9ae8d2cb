args = commandArgs(TRUE)
if (length(args) != 2) stop("usage: clean.R INPUT OUTPUT")
input = args[1]
output = args[2]
