#!/bin/sh
# getopts "x:" in a comment
for lr in 0.1 0.01; do
  python train.py --lr $lr
done
