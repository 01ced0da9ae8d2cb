#!/usr/bin/env bash
# Everything that only a GPU can answer, in one folder of JSON and Markdown.
#
#   scripts/gpu-evidence.sh                      on a machine with an NVIDIA GPU: at most 25 minutes
#   SMOKE=1 scripts/gpu-evidence.sh              tiny sizes on Vulkan, software included: does the script work?
#
# Needs a built `sweep` and nothing else: no cargo, no network. It can be stopped at any time; started again with the same
# folder it goes on where it was. What does not fit into the time is left out, and the summary says so.
#
#   SWEEP      the program (target/release/sweep)
#   OUT        the folder (results/evidence/<backend>)
#   BACKEND    cuda, or wgpu with SMOKE
#   MINUTES    the time there is, counted from now (25)
#   PYTHON     a Python that may have PyTorch (python3)
#   COMMIT     the commit that the program was built from, where git cannot tell
set -uo pipefail
cd "$(dirname "$0")/.."

SMOKE=${SMOKE:-}
BACKEND=${BACKEND:-$([ -n "$SMOKE" ] && echo wgpu || echo cuda)}
SWEEP=${SWEEP:-${CARGO_TARGET_DIR:-target}/release/sweep}
OUT=${OUT:-results/evidence/$BACKEND}
PYTHON=${PYTHON:-python3}
DEADLINE=$(($(date +%s) + ${MINUTES:-25} * 60))
# Records, which are many and large, lie beside the folder that is kept.
WORK=$OUT.work

if ! "$SWEEP" --version >/dev/null 2>&1; then
    echo "gpu-evidence: there is no program at $SWEEP: build it with 'make build', or set SWEEP" >&2
    exit 2
fi
mkdir -p "$OUT" "$WORK/done"
SWEEP=$(realpath "$SWEEP")

# The text as a JSON string.
quoted() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//$'\t'/ }
    printf '"%s"' "${text//$'\n'/\\n}"
}

# Runs a step once: name, seconds that it may take, command. What it prints is its Markdown.
step() {
    local name=$1 limit=$2 left
    shift 2
    if [ -e "$WORK/done/$name" ]; then
        echo "$name: done before"
        return
    fi
    left=$((DEADLINE - $(date +%s)))
    if [ "$left" -lt 20 ]; then
        echo "$name: no time left"
        return
    fi
    [ "$limit" -gt "$left" ] && limit=$left
    echo "$name: at most $limit s"
    local begun code
    begun=$(date +%s)
    LIMIT=$limit "$@" >"$OUT/$name.part" 2>"$WORK/$name.log"
    code=$?
    # A refuted claim is a result.
    if [ "$code" -eq 0 ] || [ "$code" -eq 6 ]; then
        mv "$OUT/$name.part" "$OUT/$name.md"
        echo "$(($(date +%s) - begun))" >"$WORK/done/$name"
        rm -f "$OUT/$name.failed"
    else
        tail -n 5 "$WORK/$name.log" >"$OUT/$name.failed"
        rm -f "$OUT/$name.part"
        echo "$name: exit code $code; $WORK/$name.log says why"
    fi
}

# Runs a program for at most $LIMIT seconds: SIGINT first, then the end.
limited() {
    timeout --signal=INT --kill-after=20 "$LIMIT" "$@"
}

# Runs a recipe and prints its tables and verdicts as Markdown; further arguments change the recipe.
recipe() {
    local path=$1 only=()
    shift
    # What is asked for in part is reported whole.
    while [ "${1:-}" = --only ]; do
        only+=(--only "$2")
        shift 2
    done
    limited "$SWEEP" --results "$WORK" run "$path" --backend "$BACKEND" "${only[@]}" "$@" >/dev/null || return
    "$SWEEP" --results "$WORK" report "$path" --backend "$BACKEND" "$@" --format md
}

# Names the GPU, the driver, the program and the day, as JSON.
machine() {
    local devices gpu commit
    devices=$("$SWEEP" devices) || return
    gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi")
    commit=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
    {
        printf '{\n  "date": %s,\n' "$(quoted "$(date -u +%FT%TZ)")"
        printf '  "program": %s,\n  "commit": %s,\n' "$(quoted "$("$SWEEP" --version)")" "$(quoted "$commit")"
        printf '  "backend": %s,\n  "devices": %s,\n  "nvidia_smi": %s,\n' \
            "$(quoted "$BACKEND")" "$(quoted "$devices")" "$(quoted "$gpu")"
        printf '  "cpu": %s,\n  "smoke": %s\n}\n' \
            "$(quoted "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores")" \
            "$([ -n "$SMOKE" ] && echo true || echo false)"
    } >"$OUT/machine.json"
    printf '```\n%s\n%s\n```\n' "$devices" "$gpu"
}

# The same training step in PyTorch, eager and compiled, if there is one.
peer() {
    if ! "$PYTHON" -c 'import torch' 2>/dev/null; then
        echo "PyTorch is not measured: \`$PYTHON\` cannot import torch."
        return
    fi
    local shape=(12 12 768 1024 50304 8 20)
    [ -n "$SMOKE" ] && shape=(2 2 32 16 256 2 3)
    local where=cuda
    "$PYTHON" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' || where=cpu
    echo "| PyTorch on $where | tokens/s |"
    echo "| --- | ---: |"
    for mode in "eager $where f32" "compiled $where f32" "eager $where bf16" "compiled $where bf16"; do
        local speed
        # shellcheck disable=SC2086
        speed=$(limited "$PYTHON" crates/lab/benches/peers/train_gpt2.py "${shape[@]}" $mode | tail -n 1) || speed="failed"
        # shellcheck disable=SC2086
        set -- $speed
        case $speed in
        failed) echo "| $mode | failed |" ;;
        *) echo "| $mode | $(awk -v ms="$1" -v tokens="$((shape[5] * shape[3]))" 'BEGIN { printf "%.0f", tokens / ms * 1000 }') |" ;;
        esac
    done
}

if [ -n "$SMOKE" ]; then
    tiny=(--set iters=4)
    step machine 60 machine
    step parity 900 recipe recipes/parity.yaml --only ways/checkpointing=off,optimizer=adamw
    step throughput 600 recipe recipes/throughput.yaml --only train/precision=f32 "${tiny[@]}"
    step pytorch 120 peer
    step fusion 600 recipe recipes/fusion.yaml --set iters=24 --only train/variant=bitter8 --axis train.seed=0
    step checkpointing 600 recipe recipes/checkpointing.yaml "${tiny[@]}" --set n_layer=4 --set d_model=32 --set block_size=16 \
        --set batch_size=2
    step threshold 300 recipe recipes/threshold.yaml --set n_layer=3 --set d_model=160 --set accuracy_d_model=160 \
        --set calls=1 --set estimates=2 --axis large.d_model=160 --axis threshold.method=quantile,quickselect,sample,radix,bracket \
        --axis seed=0
    step mask-update 300 recipe recipes/mask-update.yaml --set n_layer=3 --set calls=1 --axis small.d_model=160 \
        --axis medium.d_model=160 --axis gpt2.d_model=160 --axis large.d_model=160 --axis large-fused.d_model=160 \
        --set fused_mask=f32 --set floor_mask=f32 --axis fused.d_model=160,1024 --axis fused.mask=f32 --axis fused.method=radix,bracket --axis masking.mask=f32 --axis seed=0
    step batch-size 600 recipe recipes/batch-size.yaml "${tiny[@]}" --set last=2 --axis train.batch_size=1,2
else
    step machine 60 machine
    step parity 300 recipe recipes/parity.yaml
    step throughput 240 recipe recipes/throughput.yaml --scale h200
    step pytorch 240 peer
    step fusion 420 recipe recipes/fusion.yaml --scale h200 --set iters=60 --set prune_every=10 --axis train.seed=0,1 \
        --only train/fusion=off --only train/fusion=on
    step checkpointing 240 recipe recipes/checkpointing.yaml --scale h200
    step batch-size 240 recipe recipes/batch-size.yaml --scale h200
    step threshold 240 recipe recipes/threshold.yaml --scale h200 --set calls=3 --axis seed=0,1 --only threshold \
        --only large/method=sample --only large/method=bracket
    step mask-update 240 recipe recipes/mask-update.yaml --scale h200
fi

# Every record, as one list.
{
    echo '['
    first=yes
    while IFS= read -r record; do
        [ -n "$first" ] || echo ','
        first=
        cat "$record"
    done < <(find "$WORK/store" -name record.json 2>/dev/null | sort)
    echo ']'
} >"$OUT/records.json"
mkdir -p "$OUT/verdicts"
for claims in "$WORK"/reports/*/claims.json; do
    [ -e "$claims" ] || continue
    # Behind a dot stands what tells a report of flags from that of the whole study; the scale is that of all of them.
    report=$(basename "$(dirname "$claims")")
    report=${report%%.*}
    cp "$claims" "$OUT/verdicts/${report%-h200}.json"
done

{
    echo "# Evidence from a GPU"
    for name in machine parity throughput pytorch fusion checkpointing batch-size threshold mask-update; do
        printf '\n## %s\n\n' "$name"
        if [ -e "$OUT/$name.md" ]; then
            cat "$OUT/$name.md"
        elif [ -e "$OUT/$name.failed" ]; then
            printf 'Failed:\n\n```\n%s\n```\n' "$(cat "$OUT/$name.failed")"
        else
            echo "Not run."
        fi
    done
} >"$OUT/summary.md"
echo "evidence: $OUT/summary.md"
