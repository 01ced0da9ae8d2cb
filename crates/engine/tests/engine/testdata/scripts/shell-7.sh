#!/bin/bash
#SBATCH --gres=gpu:1
export GPUS=${GPUS:-1}
export OMP_NUM_THREADS=4
HOME_DIR=$HOME/x
srun python train.py
