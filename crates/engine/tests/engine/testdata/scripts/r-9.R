x <- rnorm(100)
cat("loss=", mean(x), "\n")
