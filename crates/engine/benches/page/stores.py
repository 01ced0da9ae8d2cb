"""Stores of `sweep`, MLflow and trackio with the same runs, which are always the same."""

import json
import math
import os
import random
import sqlite3
import subprocess
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple


class Size(NamedTuple):
    """Numbers of jobs, of metrics of each, and of points of a curve of each."""

    jobs: int
    metrics: int
    points: int

    def words(self) -> str:
        curve = f", {self.points:,} points" if self.points else ""
        return f"{self.jobs:,} jobs, {self.metrics} metrics{curve}"


class Run(NamedTuple):
    """A run: the parameters, the values of metrics, and the values of `loss` at the steps 1, 2, …"""

    rate: float
    decay: float
    seed: int
    metrics: Dict[str, float]
    curve: List[float]


def axes(size: Size) -> List[List[float]]:
    """The values of the axes `lr`, `wd` and `seed`, of which at least `size.jobs` combinations exist."""
    rates = [round(0.0001 * 1.25**index, 8) for index in range(20)]
    decays = [round(0.01 * (index + 1), 4) for index in range(10)]
    seeds = list(range(max(1, math.ceil(size.jobs / 200))))
    return [rates, decays, seeds]


def runs(size: Size) -> Iterator[Run]:
    """The runs, always the same ones."""
    rates, decays, seeds = axes(size)
    noise = random.Random(0)
    points = [(rate, decay, seed) for rate in rates for decay in decays for seed in seeds][: size.jobs]
    for rate, decay, seed in points:
        loss = 2 + abs(math.log10(rate) + 2.5) + decay + noise.gauss(0, 0.05)
        metrics = {"loss": loss, **{f"metric_{index:02}": noise.random() for index in range(1, size.metrics)}}
        curve = [loss + 3 / (step + 1) + noise.gauss(0, 0.02) for step in range(size.points)]
        yield Run(rate, decay, int(seed), metrics, curve)


def recipe(size: Size) -> str:
    """The recipe whose jobs are the runs."""
    rates, decays, seeds = axes(size)
    return (
        "name: page\nsteps:\n  train:\n    uses: command\n"
        f"    matrix: {{ lr: {json.dumps(rates)}, wd: {json.dumps(decays)}, seed: {json.dumps(seeds)} }}\n"
        '    with: { run: "true", env: { LR: "${{ matrix.lr }}", WD: "${{ matrix.wd }}", SEED: "${{ matrix.seed }}" } }\n'
        "tables: { t: { from: train, rows: [lr], cells: [loss] } }\n"
    )


def sweep(program: str, folder: Path, size: Size) -> None:
    """Writes a store of `sweep` with the records of all jobs but the last, and a run, which does that one."""
    (folder / "recipe.yaml").write_text(recipe(size))
    plan = [program, "plan", "recipe.yaml", "--format", "json"]
    planned = json.loads(subprocess.run(plan, cwd=folder, check=True, capture_output=True, text=True).stdout)
    jobs = planned["jobs"]
    for number, (job, run) in enumerate(zip(jobs[: size.jobs - 1], runs(size))):
        curves = {"loss": {"unit": "nats", "at": list(range(1, size.points + 1)), "values": run.curve}} if size.points else {}
        record = {
            "format": 1,
            "key": job["key"],
            "label": job["label"],
            "params": {},
            "identity": {"format": 1, "task": "command", "revision": 1},
            "outcome": {"metrics": {name: {"value": value, "unit": "1"} for name, value in run.metrics.items()}, "curves": curves},
            "provenance": {
                "sweep": "0",
                "started": f"2026-01-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00Z",
                "seconds": 60.0,
                "threads": 1,
                "host": "here",
            },
        }
        place = folder / "results" / "store" / job["key"][:2] / job["key"]
        place.mkdir(parents=True)
        (place / "record.json").write_text(json.dumps(record))
    only = [] if size.jobs == len(jobs) else [part for job in jobs[: size.jobs] for part in ("--only", job["label"])]
    subprocess.run([program, "run", "recipe.yaml", *only], cwd=folder, check=True, capture_output=True)


def mlflow(python: str, folder: Path, size: Size) -> None:
    """Writes a store of MLflow: the tables of its database directly, because its clients take minutes for a million values."""
    database = folder / "mlflow.db"
    make = f"import mlflow; mlflow.set_tracking_uri('sqlite:///{database}'); mlflow.create_experiment('page')"
    subprocess.run([python, "-c", make], cwd=folder, check=True, capture_output=True)
    with sqlite3.connect(database) as store:
        columns = [row[1] for row in store.execute("pragma table_info(runs)")]
        [experiment] = store.execute("select experiment_id from experiments where name = 'page'").fetchone()
        for number, run in enumerate(runs(size)):
            name = f"{number:032x}"
            known = {
                "run_uuid": name,
                "name": f"run-{number}",
                "source_type": "UNKNOWN",
                "user_id": "here",
                "status": "FINISHED",
                "start_time": 1767225600000 + number * 60000,
                "end_time": 1767225660000 + number * 60000,
                "lifecycle_stage": "active",
                "artifact_uri": str(folder / "artifacts" / name),
                "experiment_id": experiment,
            }
            fields = [column for column in columns if column in known]
            marks = ", ".join("?" * len(fields))
            store.execute(f"insert into runs ({', '.join(fields)}) values ({marks})", [known[field] for field in fields])
            params = {"lr": run.rate, "wd": run.decay, "seed": run.seed}
            store.executemany("insert into params (key, value, run_uuid) values (?, ?, ?)", [(key, str(value), name) for key, value in params.items()])
            store.execute("insert into tags (key, value, run_uuid) values ('mlflow.runName', ?, ?)", [f"run-{number}", name])
            last = [(key, value, 1767225660000, name, max(size.points, 1), 0) for key, value in run.metrics.items()]
            store.executemany("insert into latest_metrics (key, value, timestamp, run_uuid, step, is_nan) values (?, ?, ?, ?, ?, ?)", last)
            series = [("loss", value, 1767225600000 + step, name, step, 0) for step, value in enumerate(run.curve, 1)]
            ends = last[1:] if series else last
            store.executemany("insert into metrics (key, value, timestamp, run_uuid, step, is_nan) values (?, ?, ?, ?, ?, ?)", series + ends)


TRACKIO = """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from stores import Size, runs
from trackio.sqlite_storage import SQLiteStorage
size = Size(*map(int, sys.argv[2:5]))
for number, run in enumerate(runs(size)):
    lines = [{"loss": value} for value in run.curve] or [{}]
    lines[-1] = dict(run.metrics)
    SQLiteStorage.bulk_log(project="page", run=f"run-{number}", metrics_list=lines, steps=list(range(1, len(lines) + 1)),
                           config={"lr": run.rate, "wd": run.decay, "seed": run.seed})
"""


def trackio(python: str, folder: Path, size: Size) -> None:
    """Writes a store of trackio with its own writer."""
    variables = {**os.environ, "TRACKIO_DIR": str(folder / "trackio"), "HF_HUB_OFFLINE": "1"}
    arguments = [str(Path(__file__).parent), *map(str, size)]
    ended = subprocess.run([python, "-c", TRACKIO, *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else "trackio has failed")
