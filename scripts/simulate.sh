#!/usr/bin/env bash
# Runs the store on simulated machines (crates/plan/tests/simulate/): fresh seeds for SWEEP_SIMULATE_SECONDS (10 if it is not set), and
# a search for planted bugs, with SWEEP_SIMULATE_BUGS=all also for those that need many seeds.
set -euo pipefail
cd "$(dirname "$0")/.."
# Without optimization a schedule takes three times as long.
export CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=none
simulate=("${CARGO:-cargo}" test --locked --package sweep-plan --features simulate --test simulate)
"${simulate[@]}" --no-run
# The engines are threads that take turns, which is quicker on one core.
pin=()
if cores=$(taskset -pc $$ 2>/dev/null); then pin=(taskset -c "${cores##*[ ,-]}"); fi
"${pin[@]}" "${simulate[@]}" -- --nocapture --test-threads=1
