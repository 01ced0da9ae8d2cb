#!/bin/sh
# Options by getopts, and a helper beside the script.
set -eu
while getopts "r:n:" option; do
    case $option in
    r) rate=$OPTARG ;;
    n) number=$OPTARG ;;
    *) exit 2 ;;
    esac
done
. ./helper.sh
echo "mse=$(product "$rate" "$number")"
