#!/usr/bin/env bash
# A throw-away Ray cluster for the tests, in a network of its own that has a loopback interface only: parts of Ray listen on all
# interfaces whatever they are told.
#
#   scripts/ray-test.sh DIR
#
# `ready PID` on standard output means that the Jobs API answers at http://127.0.0.1:8265 in the network of that process, and that
# the agent to which it hands jobs does:
# `nsenter --user --preserve-credentials --net -t PID COMMAND` runs a command there. At the end of standard input, and so when
# whoever has started this is gone, the cluster is taken down: every process in that network by its number. Exit code 3: Ray is
# not installed (scripts/python-deps.sh), or a network cannot be made.
set -uo pipefail
dir=${1:?usage: ray-test.sh DIR}
# Its own programs have the path in them at which the environment was made; it was renamed since.
python=${SWEEP_PYTHON_RAY:-$HOME/.cache/sweep/ray}/bin/python
if [ -z "${SWEEP_RAY_INSIDE:-}" ]; then
    "$python" -c 'import ray' 2>/dev/null || { echo "ray-test: Ray is not installed (scripts/python-deps.sh)" >&2; exit 3; }
    unshare --user --map-root-user --net true 2>/dev/null || { echo "ray-test: no network can be made (unshare)" >&2; exit 3; }
    SWEEP_RAY_INSIDE=1 exec unshare --user --map-root-user --net -- "$0" "$@"
fi
command -v ip >/dev/null && ip link set lo up || { echo "ray-test: no loopback interface (iproute2)" >&2; exit 3; }
mkdir -p "$dir" || exit 1
export RAY_USAGE_STATS_ENABLED=0 RAY_DISABLE_IMPORT_WARNING=1 RAY_DEDUP_LOGS=0 RAY_JOB_STOP_WAIT_TIME_S=2
unset RAY_ADDRESS RAY_API_SERVER_ADDRESS
# How often the manager of jobs looks at a job, in seconds.
export RAY_JOB_MANAGER_MONITOR_POLL_INTERVAL_S=1
# On a busy machine parts of Ray start and answer late: a node is then dead to the others, or without an agent for good. A machine
# that is short of memory for other reasons has no worker ended by Ray.
export RAY_agent_register_timeout_ms=300000 RAY_health_check_timeout_ms=60000 RAY_health_check_failure_threshold=20
export RAY_memory_monitor_refresh_ms=0
setsid -- "$python" -m ray.scripts.scripts start --head --block --num-cpus 4 --num-gpus 2 --memory 2000000000 --object-store-memory 100000000 \
    --dashboard-host 127.0.0.1 --dashboard-port 8265 --disable-usage-stats --temp-dir "$dir" </dev/null >"$dir/start.log" 2>&1 &
started=$!

# The processes in this network, but for this one and what it runs now.
others() {
    local mine process
    mine=$(readlink /proc/self/ns/net)
    for process in /proc/[0-9]*; do
        process=${process#/proc/}
        [ "$process" != "$$" ] && [ "$process" != "$BASHPID" ] && [ "$(readlink "/proc/$process/ns/net" 2>/dev/null)" = "$mine" ] && echo "$process"
    done
}
down() {
    trap - EXIT
    kill -TERM "$started" 2>/dev/null
    for _ in $(seq 20); do
        kill -0 "$started" 2>/dev/null || break
        sleep 0.1
    done
    for process in $(others); do kill -KILL "$process" 2>/dev/null; done
    [ -z "${KEEP:-}" ] && rm -rf "$dir"
    exit "${1:-0}"
}
trap 'down 1' EXIT
trap 'down 0' TERM INT HUP

answers() { # PORT PATH
    (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && head -1 <&3 | grep -q ' 200 ') 2>/dev/null
}
for _ in $(seq 600); do
    if answers 8265 /api/jobs/ && answers 52365 /api/local_raylet_healthz; then
        echo "ready $$"
        # Until its end.
        while read -r _; do :; done
        down 0
    fi
    kill -0 "$started" 2>/dev/null || break
    sleep 0.2
done
echo 'ray-test: Ray does not start' >&2
tail -n 30 "$dir/start.log" >&2
down 1
