argv <- commandArgs(trailingOnly=TRUE)
rate <- as.numeric(if (length(argv)) argv[[1]] else "0.5")
