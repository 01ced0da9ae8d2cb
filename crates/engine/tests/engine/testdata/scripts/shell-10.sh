#!/bin/sh
a=3
seed=42
while getopts a:s:q opt; do
  case $opt in
    a ) a=$OPTARG ;;
    s ) s=$OPTARG; seed=$s ;;
    q ) quiet=1 ;;
    \? ) exit 2 ;;
  esac
done
