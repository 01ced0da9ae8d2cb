#!/usr/bin/env bash
# Installs the Python programs that tests hold against what `sweep` reads and writes, or run as jobs, into folders outside of the
# clone: MLflow and TensorBoard, which read exports; pandas, polars and wandb, which the Python module is tested with, its
# linters, and numba, whose programs are observed; the parsers whose parameters `sweep new` reads, with the notebooks that reports are
# shown in, those of Jupyter and of marimo; Optuna, whose samplers searches use; the SDK of the Model Context Protocol, as a client of
# `sweep mcp`; the packages of in-toto and of the Secure Systems Lab, which check signed statements; Ray, of which
# scripts/ray-test.sh starts a cluster; PyTorch as the distribution
# packages it (the one of PyPI brings gigabytes of CUDA), and with it Hugging Face transformers, which also reads saved networks,
# accelerate, which its Trainer needs, and Lightning.
# Where they cannot be installed it says why and succeeds; the tests then say the same.
set -euo pipefail

without() {
    echo "python-deps: $1; tests against ${what:-them} will not run" >&2
    exit 0
}

# Succeeds if the environment in $1 can import what $2 does. Importing takes seconds, so a file there keeps that it could; later it
# is enough that the modules are there.
works() {
    local modules
    [ -x "$1/bin/python" ] || return
    if [ "$(cat "$1/works" 2>/dev/null)" = "$2" ]; then
        modules=${2#import } modules=${modules%%;*}
        "$1/bin/python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' ${modules//,/} 2>/dev/null
    else
        "$1/bin/python" -c "$2" 2>/dev/null && printf '%s' "$2" >"$1/works"
    fi
}

# Makes a virtual environment in $1 with the packages $3 …; $2 is what tells whether it works. `$alone` is a package that is
# installed without what it asks for. Made beside and renamed, so that a half-made one is never found.
environment() {
    local folder=$1 works=$2
    shift 2
    rm -rf "$folder" "$folder.new"
    mkdir -p "$(dirname "$folder")"
    /usr/bin/python3 -m venv "${options[@]}" "$folder.new" || without 'no virtual environment can be made'
    "$folder.new/bin/python" -m pip install -q --disable-pip-version-check "$@" || without "$* cannot be installed"
    if [ -n "${alone:-}" ]; then
        "$folder.new/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$alone" || without "$alone cannot be installed"
        # A module of Debian's PyTorch that its own Python rejects. Lightning imports it for sharded tensors only.
        sed -i 's/if _IS_WINDOWS or not torch.distributed.is_available():/if True:/' \
            "$folder.new"/lib/python3*/site-packages/lightning/pytorch/core/module.py
    fi
    works "$folder.new" "$works" || without "$* do not start"
    mv "$folder.new" "$folder"
}

readers="${SWEEP_PYTHON_EXPORTS:-$HOME/.cache/sweep/exports}"
if ! works "$readers" 'import mlflow, tensorboard'; then
    # In a shell of its own, because transformers may be there all the same.
    (what='MLflow and TensorBoard' options=() && environment "$readers" 'import mlflow, tensorboard' 'mlflow==3.17.2' 'tensorboard==2.21.0')
fi

module="${SWEEP_PYTHON_MODULE:-$HOME/.cache/sweep/module}"
works='import numpy, pandas, polars, pyarrow, wandb, mypy, ruff, numba'
if ! works "$module" "$works"; then
    (what='pandas, polars and wandb' options=() && environment "$module" "$works" 'numpy==2.4.6' 'pandas==3.1.1' \
        'polars==2.1.0' 'pyarrow==26.0.1' 'wandb==0.31.0' 'mypy==2.4.1' 'ruff==0.17.6' \
        'numba==0.68.1')
fi

parsers="${SWEEP_PYTHON_PARSERS:-$HOME/.cache/sweep/parsers}"
works='import click, hydra, tyro, typer, fire, absl, ml_collections, jsonargparse, docopt, omegaconf, pydantic_settings, simple_parsing, draccus, papermill, ipykernel, dotenv, marimo'
if ! works "$parsers" "$works"; then
    (what='click, Hydra, tyro, typer and other parsers' options=() && environment "$parsers" "$works" \
        'click==8.5.1' 'hydra-core==1.3.8' 'tyro==1.0.17' 'typer==0.29.2' 'fire==0.7.1' 'absl-py==2.5.1' 'ml_collections==1.1.0' \
        'jsonargparse[signatures]==4.53.0' 'docopt==0.6.2' 'omegaconf==2.3.1' 'pydantic-settings==2.16.3' 'simple-parsing==0.1.9' \
        'draccus==0.11.6' 'papermill==2.7.0' 'ipykernel==7.4.0' 'python-dotenv==1.2.4' 'marimo==0.25.2')
fi

optuna="${SWEEP_PYTHON_OPTUNA:-$HOME/.cache/sweep/optuna}"
if ! works "$optuna" 'import optuna, cmaes'; then
    (what='Optuna' options=() && environment "$optuna" 'import optuna, cmaes' 'optuna==5.0.0' 'cmaes==0.13.1')
fi

agents="${SWEEP_PYTHON_MCP:-$HOME/.cache/sweep/mcp}"
if ! works "$agents" 'import mcp'; then
    (what='the SDK of the Model Context Protocol' options=() && environment "$agents" 'import mcp' 'mcp==2.3.0')
fi

standards="${SWEEP_PYTHON_STANDARDS:-$HOME/.cache/sweep/standards}"
if ! works "$standards" 'import in_toto_attestation, securesystemslib, cryptography'; then
    # The tests ask mlcroissant, too, where it is installed by hand: with what it needs it has 200 MB.
    (what='in-toto' options=() && environment "$standards" 'import in_toto_attestation, securesystemslib, cryptography' \
        'in-toto-attestation==0.9.3' 'securesystemslib[crypto]==1.6.0')
fi

ray="${SWEEP_PYTHON_RAY:-$HOME/.cache/sweep/ray}"
if ! works "$ray" 'import ray, aiohttp'; then
    (what='Ray' options=() && environment "$ray" 'import ray, aiohttp' 'ray[default]==2.60.0')
fi

what='PyTorch, transformers and Lightning'
folder="${SWEEP_PYTHON:-$HOME/.cache/sweep/transformers}"
# The last lines of releases that run with the PyTorch of Debian 12.
packages=('transformers==4.44.2' 'accelerate==0.33.0' 'torchmetrics==1.5.2' 'lightning-utilities==0.15.3' 'fsspec[http]==2024.12.0')
# Asks for 1.13.0, of which Debian's 1.13.1 says that it is a preview.
alone='lightning==2.2.5'
works='import torch, transformers, accelerate, lightning; lightning.LightningModule()'

if works "$folder" "$works"; then
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
# Whatever the packages ask for, the PyTorch stays that of the distribution.
constraint=$(mktemp)
trap 'rm -f "$constraint"' EXIT
/usr/bin/python3 -c 'import importlib.metadata as m; print("torch==" + m.version("torch"))' >"$constraint"
export PIP_CONSTRAINT=$constraint
environment "$folder" "$works" "${packages[@]}"
