library("optparse"); N <- 4L
opt <- parse_args(OptionParser(option_list = list(make_option(c("-n", "--nodes"), type="integer", default=4L), make_option(c("-r", "--rate"), type="double", default=1.5e-5))))
