#!/usr/bin/env bash
set -euo pipefail
LR=0.1
BATCH=32
OUT="out"
VERBOSE=0
usage() { echo "Usage: $0 [-l LR] [-b BATCH] [-o OUT] [-v]" 1>&2; exit 1; }
while getopts ":l:b:o:vh" o; do
    case "${o}" in
        l)
            LR=${OPTARG}
            ;;
        b) BATCH="$OPTARG" ;;
        o) OUT=$OPTARG;;
        v) VERBOSE=1 ;;
        h | *) usage ;;
    esac
done
shift $((OPTIND-1))
python train.py --lr "$LR" --batch "$BATCH"
