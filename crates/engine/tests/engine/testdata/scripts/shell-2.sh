#!/bin/bash
lr=$1
epochs=${2:-10}
seed="${3-1}"
python train.py --lr $lr --epochs $epochs --seed $seed
