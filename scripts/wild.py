#!/usr/bin/env python3
"""Runs each script of examples/wild with one command, and prints what that takes: kind, commands, edits, seconds, right value.

    scripts/wild.py PROGRAM [PYTHON]

PROGRAM is `sweep`. PYTHON has the packages that scripts/python-deps.sh installs for parsers; without it, the kinds that need these are left
out, and so are those whose program is not here, which the table says.
Each kind runs in a fresh copy, twice: the second run must run nothing. Exit code 1 if a value is wrong.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

WILD = pathlib.Path(__file__).resolve().parent.parent / "examples" / "wild"


def records(results):
    """The records of a results folder by their labels. One that was measured again from its log stands beside the first."""
    found = [json.loads(path.read_text()) for path in results.glob("store/*/*/record.json")]
    found.sort(key=lambda record: len(record["outcome"]["metrics"]))
    return {record["label"]: record for record in found}


def attempt(study, sweep, python, place):
    """Runs one study; returns the seconds of its first run and what is wrong with it, or nothing."""
    shutil.copytree(WILD, place / "wild")
    folder, results = place / "wild" / study["folder"], place / "results"
    environment = dict(os.environ)
    if study.get("python"):
        environment["PATH"] = f"{pathlib.Path(python).parent}:{environment['PATH']}"
    if study.get("before"):
        subprocess.run(study["before"], cwd=folder, check=True)
    before = sorted(str(path) for path in folder.rglob("*"))
    command = [sweep, "--results", str(results), "run", *study["run"]]
    begun = time.monotonic()
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    seconds = time.monotonic() - begun
    if ended.returncode != 0:
        return seconds, ended.stderr.strip()
    metrics = records(results).get(study["job"], {}).get("outcome", {}).get("metrics", {})
    value = metrics.get(study["metric"], {}).get("value")
    if value is None or abs(value - study["value"]) > 1e-9:
        return seconds, f"{study['metric']} is {value}, not {study['value']}: {ended.stderr.strip()}"
    if study["metric"] not in ended.stdout:
        return seconds, f"{study['metric']} is not in the table: {ended.stdout.strip()}"
    count = len(records(results))
    again = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if again.returncode != 0 or len(records(results)) != count or "cached" not in again.stderr:
        return seconds, f"the second run is another one: {again.stderr.strip()}"
    after = sorted(str(path) for path in folder.rglob("*"))
    if before != after and "private views" not in ended.stderr:
        return seconds, f"the project was changed: {set(after) ^ set(before)}"
    return seconds, ""


def main():
    sweep = str(pathlib.Path(sys.argv[1]).resolve())
    python = sys.argv[2] if len(sys.argv) > 2 else None
    print("| kind | commands | edits | seconds | right value |\n| --- | ---: | ---: | ---: | --- |")
    wrong = 0
    for study in json.loads((WILD / "studies.json").read_text()):
        if study.get("python") and not python:
            print(f"| {study['kind']} | – | – | – | not run: needs a Python with its packages |")
            continue
        if study.get("needs") and not shutil.which(study["needs"]):
            print(f"| {study['kind']} | – | – | – | not run: there is no {study['needs']} |")
            continue
        with tempfile.TemporaryDirectory() as place:
            seconds, problem = attempt(study, sweep, python, pathlib.Path(place))
        wrong += bool(problem)
        print(f"| {study['kind']} | 1 | 0 | {seconds:.1f} | {'NO: ' + problem if problem else 'yes'} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
