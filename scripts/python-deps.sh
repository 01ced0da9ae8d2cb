#!/usr/bin/env bash
# Installs PyTorch and Hugging Face transformers, against which a test holds what `sweep` writes: PyTorch as the
# distribution packages it (the one of PyPI brings gigabytes of CUDA), transformers into a folder outside of the clone.
# Where they cannot be installed it says why and succeeds; the test then says the same.
set -euo pipefail

folder="${SWEEP_PYTHON:-$HOME/.cache/sweep/transformers}"
# The last line of releases that runs with the PyTorch of Debian 12.
transformers='transformers==4.44.2'

without() {
    echo "python-deps: $1; the test against transformers will not run" >&2
    exit 0
}

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
# Made beside and renamed, so that a half-made one is never found.
rm -rf "$folder.new"
mkdir -p "$(dirname "$folder")"
/usr/bin/python3 -m venv --system-site-packages "$folder.new" || without 'no virtual environment can be made'
"$folder.new/bin/python" -m pip install -q --disable-pip-version-check "$transformers" \
    || without "$transformers cannot be installed"
rm -rf "$folder"
mv "$folder.new" "$folder"
"$folder/bin/python" -c 'import torch, transformers' || without 'PyTorch and transformers do not start'
