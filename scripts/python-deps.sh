#!/usr/bin/env bash
# Installs the Python programs that tests hold against what `sweep` reads and writes, into folders outside of the clone: MLflow
# and TensorBoard, which read exports; the parsers whose parameters `sweep init` reads; Hugging Face transformers, which reads
# saved networks, with PyTorch as the distribution packages it (the one of PyPI brings gigabytes of CUDA).
# Where they cannot be installed it says why and succeeds; the tests then say the same.
set -euo pipefail

without() {
    echo "python-deps: $1; tests against ${what:-them} will not run" >&2
    exit 0
}

# Makes a virtual environment in $1 with the packages $3 …; $2 is what tells whether it works. Made beside and renamed, so
# that a half-made one is never found.
environment() {
    local folder=$1 works=$2
    shift 2
    rm -rf "$folder.new"
    mkdir -p "$(dirname "$folder")"
    /usr/bin/python3 -m venv "${options[@]}" "$folder.new" || without 'no virtual environment can be made'
    "$folder.new/bin/python" -m pip install -q --disable-pip-version-check "$@" || without "$* cannot be installed"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
    "$folder/bin/python" -c "$works" || without "$* do not start"
}

readers="${SWEEP_PYTHON_EXPORTS:-$HOME/.cache/sweep/exports}"
if ! { [ -x "$readers/bin/python" ] && "$readers/bin/python" -c 'import mlflow, tensorboard' 2>/dev/null; }; then
    # In a shell of its own, because transformers may be there all the same.
    (what='MLflow and TensorBoard' options=() && environment "$readers" 'import mlflow, tensorboard' 'mlflow==3.17.2' 'tensorboard==2.21.0')
fi

parsers="${SWEEP_PYTHON_PARSERS:-$HOME/.cache/sweep/parsers}"
if ! { [ -x "$parsers/bin/python" ] && "$parsers/bin/python" -c 'import click, hydra, tyro, typer' 2>/dev/null; }; then
    (what='click, Hydra, tyro and typer' options=() && environment "$parsers" 'import click, hydra, tyro, typer' \
        'click==8.5.1' 'hydra-core==1.3.8' 'tyro==1.0.17' 'typer==0.29.2')
fi

what=transformers
folder="${SWEEP_PYTHON:-$HOME/.cache/sweep/transformers}"
# The last line of releases that runs with the PyTorch of Debian 12.
transformers='transformers==4.44.2'

if [ -x "$folder/bin/python" ] && "$folder/bin/python" -c 'import torch, transformers' 2>/dev/null; then
    exit 0
fi
if ! /usr/bin/python3 -c 'import torch, ensurepip' 2>/dev/null; then
    command -v apt-get >/dev/null || without 'no apt-get here'
    sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || without 'may not install packages'
        sudo=(sudo -n)
    fi
    export DEBIAN_FRONTEND=noninteractive
    "${sudo[@]}" apt-get update -qq || without 'apt-get update failed'
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends python3-torch python3-venv >/dev/null \
        || without 'python3-torch cannot be installed'
fi
options=(--system-site-packages)
environment "$folder" 'import torch, transformers' "$transformers"
