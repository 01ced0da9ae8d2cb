# The share of a word, in percent, and a time in milliseconds. A file is left in the input folder.
$1 == word { found++ }
END {
    printf "acc=%d%%\n", 100 * found / NR
    print "time_ms=" found * 1.5
    while ((getline line < "notes/limit.txt") > 0) print "limit=" line
    print "seen" > "notes/cache.tmp"
}
