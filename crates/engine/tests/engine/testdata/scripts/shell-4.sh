#!/usr/bin/env bash
LR=0.1
EPOCHS=3
AMP=false
while [[ $# -gt 0 ]]; do
  case "$1" in
    --lr) LR="$2"; shift 2 ;;
    --epochs)
      EPOCHS="$2"
      shift 2
      ;;
    --amp) AMP=true; shift ;;
    -h|--help) echo usage; exit 0 ;;
    *) echo "unknown: $1"; exit 1 ;;
  esac
done
python train.py --lr "$LR" --epochs "$EPOCHS"
