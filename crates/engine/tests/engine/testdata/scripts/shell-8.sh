#!/usr/bin/env zsh
local data=${1:-data}
readonly temperature=${2:-0.7}
echo "loss=$temperature"
