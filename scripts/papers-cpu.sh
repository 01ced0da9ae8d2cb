#!/usr/bin/env bash
# The papers and the architecture ablation at the largest sizes at which two cores can judge their claims: runs
# `sweeps/paper.yaml` and `recipes/ratio.yaml` at the scale `paper-cpu` and keeps the evidence in a folder that is small enough to
# be committed.
#
#   scripts/papers-cpu.sh              hours on two cores; use an otherwise idle machine
#
# It can be stopped at any time; started again, it goes on where it was. The folder has the circumstances (`machine.json`), the
# verdicts, tables and figures of every recipe, and all records without their files, in a bundle that is verified:
#
#   xz --decompress --stdout results/evidence/cpu/paper-cpu.sweep.tar.xz >/tmp/paper-cpu.sweep.tar
#   sweep bundle verify /tmp/paper-cpu.sweep.tar --rerun 5
#
# The records alone are beside it, except those of recipes that keep checkpoints. With them the run goes on in another store, which
# may have run a part of the recipes only:
#
#   xz --decompress --stdout results/evidence/cpu/paper-cpu.records.tar.xz >/tmp/paper-cpu.records.tar
#   sweep cache import /tmp/paper-cpu.records.tar
#
#   SWEEP      the program (target/release/sweep)
#   RESULTS    the folder of the records (results)
#   OUT        the folder of the evidence (results/evidence/cpu)
#   RECIPES    what is run (sweeps/paper.yaml recipes/ratio.yaml)
#   SCALE      the scale (paper-cpu); empty for the values of the recipes
#   COMMIT     the commit that the program was built from, where git cannot tell
set -euo pipefail
cd "$(dirname "$0")/.."

SWEEP=${SWEEP:-${CARGO_TARGET_DIR:-target}/release/sweep}
RESULTS=${RESULTS:-results}
OUT=${OUT:-results/evidence/cpu}
read -ra RECIPES <<<"${RECIPES:-sweeps/paper.yaml recipes/ratio.yaml}"
SCALE=${SCALE-paper-cpu}
scale=(${SCALE:+--scale "$SCALE"})
bundle_name=${SCALE:-studies}

if ! "$SWEEP" --version >/dev/null 2>&1; then
    echo "papers-cpu: there is no program at $SWEEP: build it with 'make build', or set SWEEP" >&2
    exit 2
fi
for tool in xz python3; do
    if ! command -v "$tool" >/dev/null; then
        echo "papers-cpu: $tool is missing: install it" >&2
        exit 2
    fi
done

begun=$(date +%s)
code=0
"$SWEEP" --results "$RESULTS" run "${RECIPES[@]}" --backend cpu "${scale[@]}" >/dev/null || code=$?
# A job that failed has no result, which its tables and claims say; everything else that ends a run leaves it unfinished.
if [ "$code" -ne 0 ] && [ "$code" -ne 1 ]; then
    echo "papers-cpu: the run ended with code $code; start it again to go on" >&2
    exit "$code"
fi

# A new folder takes the place of the old one at the end, so that a kill leaves one of both.
mkdir -p "$(dirname "$OUT")"
new=$(mktemp -d "$OUT.XXXXXX")
bundle=$(mktemp "${TMPDIR:-/tmp}/papers-cpu.XXXXXX")
trap 'rm -rf "$new" "$bundle"' EXIT
chmod 755 "$new"
mkdir "$new/verdicts"
found=
# A recipe's report is in a folder of its name with the scale; those of a sweep file are below one of its name.
for claims in $(printf '%s\n' "${RECIPES[@]}" | xargs -n 1 basename | sed "s|\.yaml$|${SCALE:+-$SCALE}|" |
    while read -r name; do find "$RESULTS/reports/$name" -maxdepth 2 -name claims.json | sort; done); do
    report=$(dirname "$claims")/
    found=yes
    recipe=$(basename "$report" "${SCALE:+-$SCALE}")
    cp "$claims" "$new/verdicts/$recipe.json"
    mkdir -p "$new/$recipe"
    for file in "$report"tables/*.md "$report"figures/*.svg; do
        [ ! -e "$file" ] || cp "$file" "$new/$recipe/"
    done
done
if [ -z "$found" ]; then
    echo "papers-cpu: there are no verdicts of the scale $SCALE below $RESULTS/reports" >&2
    exit 1
fi

"$SWEEP" --results "$RESULTS" bundle create "${RECIPES[@]}" --backend cpu "${scale[@]}" --output "$bundle"
"$SWEEP" bundle verify "$bundle"
xz --compress --stdout -6 "$bundle" >"$new/$bundle_name.sweep.tar.xz"
# Records have their files. With checkpoints among them they are too large to be committed, and such recipes run again elsewhere.
small=()
for recipe in "${RECIPES[@]}"; do
    if ! "$SWEEP" --results "$RESULTS" cache export "$recipe" "${scale[@]}" --output "$bundle"; then
        echo "papers-cpu: the records of $recipe cannot be exported, so they are left out" >&2
        continue
    fi
    if [ "$(stat --format %s "$bundle")" -le 20000000 ]; then
        small+=("$recipe")
    else
        echo "papers-cpu: the records of $recipe are too large to be kept" >&2
    fi
done
if [ ${#small[@]} -gt 0 ]; then
    "$SWEEP" --results "$RESULTS" cache export "${small[@]}" "${scale[@]}" --output "$bundle"
    xz --compress --stdout -6 "$bundle" >"$new/$bundle_name.records.tar.xz"
fi

DEVICES=$("$SWEEP" devices 2>/dev/null || true) VERSION=$("$SWEEP" --version) SECONDS_TAKEN=$(($(date +%s) - begun)) \
    COMMIT=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)} SCALE=$SCALE python3 - >"$new/machine.json" <<'PYTHON'
import datetime, json, os, platform

with open("/proc/cpuinfo", encoding="utf-8") as file:
    models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
cores = len(os.sched_getaffinity(0))
facts = {
    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "program": os.environ["VERSION"],
    "commit": os.environ["COMMIT"],
    "scale": os.environ["SCALE"],
    "backend": "cpu",
    "cpu": f"{models[0] if models else platform.machine()}, {cores} cores",
    "devices": os.environ["DEVICES"],
    "seconds_of_the_last_run": int(os.environ["SECONDS_TAKEN"]),
}
print(json.dumps(facts, indent=2))
PYTHON

chmod 644 "$new/$bundle_name".*.tar.xz
rm -rf "$OUT.old"
[ ! -e "$OUT" ] || mv "$OUT" "$OUT.old"
mv "$new" "$OUT"
rm -rf "$OUT.old"
echo "evidence: $OUT ($(du -sh "$OUT" | cut -f1))"
[ "$code" -eq 0 ] || echo "papers-cpu: some jobs failed; the tables and claims say which" >&2
