#!/usr/bin/env bash
# Runs every test of the workspace: with cargo-nextest where it is installed, else with cargo's own runner.
set -euo pipefail
cd "$(dirname "$0")/.."
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --workspace --no-fail-fast "$@"
else
    cargo test --locked --workspace --no-fail-fast "$@"
fi
