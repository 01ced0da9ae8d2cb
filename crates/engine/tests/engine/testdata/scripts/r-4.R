args <- commandArgs(trailingOnly = TRUE)
lr <- if (length(args) >= 1) as.numeric(args[1]) else 0.1
n <- ifelse(length(args) > 1, as.integer(args[2]), 100L)
seed <- ifelse(length(args) > 2, as.integer(args[[3]]), 1)
set.seed(seed)
