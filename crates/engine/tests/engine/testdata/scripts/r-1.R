#!/usr/bin/env Rscript
suppressPackageStartupMessages(library("optparse"))

option_list <- list(
  make_option(c("-l", "--lr"), type = "double", default = 0.01, help = "Learning rate [default %default]"),
  make_option("--epochs", type = "integer", default = 20L, metavar = "number"),
  make_option(c("-o", "--out"), type = "character", default = "model.rds",
              help = "Output file (as RDS), e.g. \"a.rds\""),
  make_option(c("-v", "--verbose"), action = "store_true", default = FALSE),
  make_option("--seed", type = "integer", default = 1),
  make_option(c("-k"), type = "integer", default = 5)
)
opt <- parse_args(OptionParser(option_list = option_list, usage = "%prog [options]"))
set.seed(opt$seed)
