"""The module in jobs of the program itself (`SWEEP_BIN`)."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from typing import Any, Dict, List

import driver

sys.path.insert(0, str(driver.MODULE))

import sweep

STUDY = """\
name: study
steps:
  train:
    uses: command
    matrix: {{ lr: {rates} }}
    with:
      argv: [{python}, train.py]
      inputs: [train.py]
      params: {{ lr: "${{{{ matrix.lr }}}}", name: x }}
      metrics: {{ loss: min }}
"""

TRAIN = """
    import json, os, sweep, time
    p = sweep.params(lr=1.0, iters=30, name="")
    assert sweep.active() and p.name == "x"
    state = {"sum": 0.0, "from": []}
    if (path := sweep.resume()) is not None:
        state = json.loads(path.read_text())
    loop = sweep.steps(p.iters)
    state["from"].append(loop.start)
    hold = os.environ.get("HOLD")
    for step in loop:
        if step == 20 and hold and os.path.exists(hold):
            # Longer than the time between two looks for the file.
            time.sleep(0.15)
            while not os.path.exists(os.environ["SWEEP_STOP"]):
                time.sleep(0.15)
        state["sum"] += step * p.lr
        stop = sweep.report(step, loss=abs(step - 12) * p.lr, sum=state["sum"], step_ms=2)
        if stop or step % 8 == 7:
            with sweep.checkpoint() as path:
                path.write_text(json.dumps(state))
    sweep.report(attempts=len(state["from"]), begun=state["from"][-1])
    """


@unittest.skipUnless("SWEEP_BIN" in os.environ, "SWEEP_BIN does not name the program")
class Program(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sweep-python-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.hold = self.root / "hold"
        self.write([0.5])
        (self.root / "train.py").write_text(textwrap.dedent(TRAIN))

    def write(self, rates: List[float]) -> None:
        (self.root / "study.yaml").write_text(STUDY.format(python=sys.executable, rates=rates))

    def start(self) -> "subprocess.Popen[str]":
        environment = {**driver.clean_environment(), "SWEEP_LOCKS": str(self.root), "HOLD": str(self.hold)}
        command = [os.environ["SWEEP_BIN"], "run", "study.yaml"]
        streams: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=self.root, env=environment, text=True, **streams)

    def run_to_its_end(self) -> None:
        process = self.start()
        said = process.communicate(timeout=driver.PATIENCE)[0]
        self.assertEqual(process.returncode, 0, said)

    def records(self) -> List[Dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in self.root.glob("results/store/??/*/record.json")]
        return sorted(found, key=lambda record: str(record["label"]))

    def wait_for_checkpoints(self, process: "subprocess.Popen[str]", number: int) -> None:
        """Waits until the job has declared so many checkpoints."""
        until = time.monotonic() + driver.PATIENCE
        reports = "results/store/partial/*/.sweep/report.jsonl"
        while sum(path.read_text().count('{"checkpoint":') for path in self.root.glob(reports)) < number:
            self.assertIsNone(process.poll(), "the run has ended")
            self.assertLess(time.monotonic(), until, "no checkpoints")
            time.sleep(0.05)

    def check(self, rates: List[float], begun: List[float]) -> None:
        records = self.records()
        self.assertEqual(len(records), len(rates))
        for record, lr in zip(records, rates):
            outcome = record["outcome"]
            loss = outcome["curves"]["loss"]
            self.assertEqual(loss["at"], list(range(30)))
            self.assertEqual(loss["values"], [abs(step - 12) * lr for step in range(30)])
            self.assertEqual(outcome["curves"]["sum"]["values"][-1], sum(range(30)) * lr)
            metrics = {name: metric["value"] for name, metric in outcome["metrics"].items()}
            self.assertEqual((metrics["loss"], metrics["loss.step"], metrics["sum"]), (0, 12, 435 * lr))
            self.assertEqual(outcome["metrics"]["step_ms"], {"value": 2.0, "unit": "ms"})
            self.assertIn(metrics["begun"], begun)
            self.assertEqual(metrics["attempts"], 1 if metrics["begun"] == 0 else 2)

    def test_curves_metrics_and_frames(self) -> None:
        self.write([0.25, 0.5])
        self.run_to_its_end()
        self.check([0.25, 0.5], [0])
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        found = sweep.curves(self.root / "results", self.root / "study.yaml", series="loss")
        self.assertEqual(list(found.columns), ["job", "lr", "series", "step", "value"])
        half = found[found["lr"] == 0.5]
        self.assertEqual(list(half["step"]), list(range(30)))
        self.assertEqual(list(half["value"]), [abs(step - 12) * 0.5 for step in range(30)])
        table = sweep.results(self.root / "results", self.root / "study.yaml", "train", select=["lr", "loss.step"])
        self.assertEqual(sorted(zip(table["lr"], table["loss.step"])), [(0.25, 12), (0.5, 12)])
        with self.assertRaisesRegex(sweep.ResultsError, "has no scale `large`"):
            sweep.results(self.root / "results", self.root / "study.yaml", scale="large")

    def test_a_killed_run_goes_on_from_the_checkpoint(self) -> None:
        self.hold.touch()
        process = self.start()
        self.wait_for_checkpoints(process, 2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.hold.unlink()
        self.run_to_its_end()
        self.check([0.5], [16])

    def test_a_stopped_run_goes_on_from_the_step_of_the_stop(self) -> None:
        self.hold.touch()
        process = self.start()
        self.wait_for_checkpoints(process, 2)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=driver.PATIENCE)[0]
        self.assertNotEqual(process.returncode, 0, said)
        self.assertEqual(self.records(), [], said)
        self.hold.unlink()
        self.run_to_its_end()
        self.check([0.5], list(range(17, 30)))


if __name__ == "__main__":
    unittest.main()
