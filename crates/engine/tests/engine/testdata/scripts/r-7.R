# Options whose lists are apart.
library(optparse)
method_option <- make_option("--method", type = "character", default = 'lasso', help = 'one of "lasso" or (ridge)')
opts <- OptionParser(option_list = list(method_option,
  make_option(c("-f", "--folds"), "store", "integer", default = 10),  # folds, of all
  make_option("--grid", type = "character", default = NA)))
opt <- parse_args(opts)
