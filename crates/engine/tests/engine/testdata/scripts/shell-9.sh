#!/bin/bash
# Options with `=`.
lr=0.01
depth=2
for i in "$@"; do
  case $i in
    --lr=*) lr="${i#*=}" ;;
    --depth=*) depth="${i#*=}"; shift ;;
    --seed=*|-s=*) seed="${i#*=}" ;;
  esac
done
