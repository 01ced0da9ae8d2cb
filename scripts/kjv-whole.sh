#!/usr/bin/env bash
# Writes the whole King James Version of the Bible, one verse a line, to a file: 4,137,850 bytes, of which the text in the program
# (crates/lab/data/kjv.txt) is the beginning. It comes from Debian's packages bible-kjv and bible-kjv-text 4.38, which are unpacked
# into a temporary folder and not installed. The text is in the public domain.
#
#   scripts/kjv-whole.sh FILE
set -euo pipefail
out=${1:?usage: scripts/kjv-whole.sh FILE}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get download --quiet bible-kjv bible-kjv-text)
for package in "$work"/*.deb; do
    dpkg-deb --extract "$package" "$work"
done
"$work/usr/bin/bible" -p "$work/usr/lib" -f gen1:1-rev22:21 </dev/null | sed -E 's/^[0-9A-Za-z]+:[0-9]+ //' >"$out.part"
mv "$out.part" "$out"
wc -c "$out"
