"""Stores with runs that are always the same."""

import json
import math
import random
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
