#!/bin/sh
: "${LR:=0.1}"
: ${BATCH:=32}
MODEL="${MODEL:-gpt2}"
NAME="run-$MODEL"
exec ./train --lr "$LR" --batch "$BATCH"
