#!/usr/bin/env bash
# Builds the wheel and tries it as a stranger would: in a fresh virtual environment, from an empty folder.
#
#   scripts/wheel.sh                                               the lab on the CPU
#   FEATURES= scripts/wheel.sh                                     all backends
#   FEATURES='--no-default-features --features mcp,remote,ui' …        the engine alone
#
# The wheel is built with Zig's linker against glibc 2.17 (manylinux2014); maturin, Zig and auditwheel come from PyPI. It is
# written to the folder `wheels` of cargo's target folder.
set -euo pipefail
cd "$(dirname "$0")/.."

FEATURES=${FEATURES---no-default-features --features cpu,mcp,remote,ui}
PYTHON=${PYTHON:-python3}
# An absolute path: the wheel is installed from another folder.
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=${SWEEP_WHEEL_TOOLS:-$HOME/.cache/sweep/wheel-tools}
maturin=maturin==1.16.0 zig=ziglang==0.17.1 auditwheel=auditwheel==6.8.2

if ! { [ -x "$tools/bin/python" ] && "$tools/bin/maturin" --version && "$tools/bin/python" -m ziglang version; } >/dev/null 2>&1; then
    # In place, because its programs have its path in them.
    "$PYTHON" -m venv --clear "$tools"
    "$tools/bin/python" -m pip install -q --disable-pip-version-check "$maturin" "$zig" "$auditwheel"
fi

rm -f "$target"/wheels/*.whl
# shellcheck disable=SC2086
PATH=$tools/bin:$PATH CARGO_TARGET_DIR=$target "$tools/bin/maturin" build --release --locked --zig \
    --target x86_64-unknown-linux-gnu --compatibility manylinux2014 $FEATURES --out "$target/wheels"
wheel=$(ls "$target"/wheels/*.whl)
"$tools/bin/python" -m auditwheel show "$wheel"

empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
cd "$empty"
begun=$SECONDS
"$PYTHON" -m venv venv
venv/bin/python -m pip install -q --disable-pip-version-check --no-index --no-deps "$wheel"
# Nothing of the caller's may help.
unset PYTHONPATH CARGO_TARGET_DIR SWEEP_RESULTS
export PATH=$empty/venv/bin:/usr/bin:/bin
sweep --version
python -c 'import sweep; print("import sweep:", sweep.__file__)'
sweep demo --backend cpu
echo "from a new environment with the wheel to the first report: $((SECONDS - begun)) s"
printf 'import sweep\np = sweep.params(lr=0.1)\nsweep.report(loss=p["lr"])\n' >train.py
sweep new train.py
sweep run train.yaml
echo "wheel: $wheel"
