"""Starts scripts as `sweep` starts programs: with the variables and files of the contract."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

#: The folder with the module.
MODULE = Path(__file__).resolve().parent.parent
#: Seconds that no script takes, even on a busy machine.
PATIENCE = 240


class Ended(NamedTuple):
    """The end of an attempt."""

    code: int
    stdout: str
    stderr: str
    #: The lines of the report.
    lines: List[Dict[str, Any]]

    def curve(self, name: str) -> Dict[int, float]:
        """The points of a series."""
        return {line["step"]: line[name] for line in self.lines if "step" in line and name in line}

    def final(self, name: str) -> Any:
        """The newest value without a step; None if there is none."""
        found = [line[name] for line in self.lines if "step" not in line and name in line]
        return found[-1] if found else None

    def notes(self) -> List[str]:
        """The notes."""
        return [line["note"] for line in self.lines if "note" in line]


class Job:
    """A job with a scratch folder that outlives its attempts."""

    def __init__(self, params: Optional[Dict[str, Any]] = None, **variables: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sweep-python-"))
        self.scratch = self.folder / "scratch"
        self.work = self.folder / "work"
        self.report = self.folder / "report.jsonl"
        self.stop = self.folder / "stop"
        self.scratch.mkdir()
        self.work.mkdir()
        (self.folder / "params.json").write_text(json.dumps(params or {}))
        self.variables = variables
        self.checkpoints: List[str] = []

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        """Begins an attempt."""
        self.report.write_bytes(b"")
        if self.stop.exists():
            self.stop.unlink()
        path = self.work / "script.py"
        path.write_text(textwrap.dedent(script))
        environment = clean_environment()
        environment.update(
            SWEEP_CONTRACT="1",
            SWEEP_PARAMS=str(self.folder / "params.json"),
            SWEEP_REPORT=str(self.report),
            SWEEP_SCRATCH=str(self.scratch),
            SWEEP_STOP=str(self.stop),
        )
        for checkpoint in reversed(self.checkpoints):
            if (self.scratch / checkpoint).exists():
                environment["SWEEP_RESUME"] = str(self.scratch / checkpoint)
                break
        environment.update(self.variables)
        environment.update(variables)
        return subprocess.Popen(
            [sys.executable, str(path)],
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> Ended:
        """Waits for the end of an attempt."""
        stdout, stderr = process.communicate(timeout=PATIENCE)
        lines = self.lines()
        self.checkpoints += [line["checkpoint"] for line in lines if "checkpoint" in line]
        return Ended(process.returncode, stdout, stderr, lines)

    def run(self, script: str, **variables: str) -> Ended:
        """Runs an attempt that must succeed."""
        ended = self.end(self.start(script, **variables))
        assert ended.code == 0, ended.stderr
        return ended

    def lines(self) -> List[Dict[str, Any]]:
        """The whole lines of the report so far."""
        text = self.report.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def wait_for_step(self, process: subprocess.Popen[str], step: int) -> None:
        """Waits until a step was reported."""
        until = time.monotonic() + PATIENCE
        while not any(line.get("step", -1) >= step for line in self.lines()):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < until, "no report"
            time.sleep(0.01)


def clean_environment() -> Dict[str, str]:
    """The environment of a program that is not a job, with the module on its path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWEEP_")}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "WANDB_MODE"):
        kept.pop(name, None)
    kept.update(PYTHONPATH=str(MODULE), PYTHONWARNINGS="default", TQDM_DISABLE="1")
    return kept


def by_hand(script: str, **variables: str) -> Ended:
    """Runs a script without `sweep`, which must succeed."""
    with tempfile.TemporaryDirectory(prefix="sweep-python-") as folder:
        command = [sys.executable, "-c", textwrap.dedent(script)]
        environment = {**clean_environment(), **variables}
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert ended.returncode == 0, ended.stderr
        assert not os.listdir(folder), "files were left"
        return Ended(ended.returncode, ended.stdout, ended.stderr, [])
