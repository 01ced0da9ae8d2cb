product() { awk -v a="$1" -v b="$2" 'BEGIN { print a * b }'; }
