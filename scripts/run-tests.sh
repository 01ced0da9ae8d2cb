#!/usr/bin/env bash
# Runs every test of the workspace: with cargo-nextest where it is installed, else with cargo's own runner.
set -euo pipefail
cd "$(dirname "$0")/.."
# The interpreter itself: where `python3` is a shim of pyenv, several shells run before each of hundreds of starts.
if interpreter=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))' 2>/dev/null); then
    export PATH="$interpreter:$PATH"
fi
# Tests make and remove very many files: in memory, if there is room for them. They have taken 0.7 GiB at once.
room() { # KIB: that much memory, and as much in its file system, in which programs may be started
    [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -ge "$1" ] &&
        [ "$(df --output=avail --block-size=1K "$memory" | tail -1)" -ge "$1" ] &&
        cp "$(type -P true)" "$memory/true" && "$memory/true"
}
if [ -z "${TMPDIR:-}" ] && memory=$(mktemp -d /dev/shm/sweep.XXXX 2>/dev/null); then
    trap 'rm -rf "$memory"' EXIT
    chmod 755 "$memory"
    if room $((4 * 1024 * 1024)) 2>/dev/null; then export TMPDIR=$memory; fi
fi
if cargo nextest --version >/dev/null 2>&1; then
    # .config/nextest.toml says how many of these places a test takes.
    cargo nextest run --locked --workspace --no-fail-fast --test-threads $((9 * $(nproc))) "$@"
else
    # The backends' generators are one per process, so tests of the lab take turns where they share one.
    cargo test --locked --workspace --exclude sweep-lab --no-fail-fast "$@"
    cargo test --locked --package sweep-lab --no-fail-fast "$@" -- --test-threads=1
fi
# The store on simulated machines: the feature is never on in the program that the other tests start.
scripts/simulate.sh
