#!/bin/sh
# Prints the section of a version in CHANGELOG.md, without its heading: scripts/release-notes.sh VERSION
set -eu
notes=$(awk -v version="${1:?name a version}" '/^## / { inside = $2 == version; next } inside' "$(dirname "$0")/../CHANGELOG.md")
if [ -z "$notes" ]; then
    echo "CHANGELOG.md has no section for $1; rename \"Unreleased\" to \"$1 - YYYY-MM-DD\"" >&2
    exit 1
fi
printf '%s\n' "$notes"
