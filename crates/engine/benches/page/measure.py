"""The pages of `sweep ui` in a real Chromium.

    python3 crates/engine/benches/page/measure.py PROGRAM [--quick]

PROGRAM is an optimized `sweep` or `sweep-engine`. Three stores are measured: 2,000 jobs with 50 metrics, 1,000 jobs with curves of
10,000 points, and a live run with 200 jobs at once; `--quick` takes small ones, to see that it works.

All times are milliseconds. *Paint* is the first paint with content, *list* the first line of the list of runs, *filter*, *sort*,
*brush* and *zoom* the last change of the page that follows the action; after it nothing changes for a second. Memory is resident, in
megabytes: the most of the server's processes, and that of the tab after all actions. A dash is an action that a page does not have, or
that cannot be carried out; the reasons are below the table. Run it on an otherwise idle machine.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Callable, Dict, List, Optional

from browser import Browser, resident
from stores import Size, sweep

COLUMNS = ["paint", "list", "filter", "sort", "brush", "zoom", "server MB", "tab MB"]
#: Seconds in which a server must answer.
START = 120


class Server:
    """A server of pages, in a process group of its own."""

    def __init__(self, command: List[str], folder: Path, variables: Dict[str, str]) -> None:
        self.log = open(folder / "server.log", "wb")
        environment = {**os.environ, **variables}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True
        )

    def wait(self, address: str) -> None:
        """Waits until it answers."""
        begun = time.monotonic()
        while time.monotonic() - begun < START:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server has ended: {Path(self.log.name).read_text(errors='replace')[-300:]}")
            try:
                urllib.request.urlopen(address, timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise RuntimeError("the server does not answer")

    def memory(self) -> float:
        """Megabytes of the processes of its group at most."""
        total = 0.0
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    if os.getpgid(int(process.name)) == self.process.pid:
                        total += resident(int(process.name), peak=True)
                except (ProcessLookupError, FileNotFoundError, PermissionError):
                    pass
        return total

    def end(self) -> None:
        """Ends it and its processes."""
        for by in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, by)
                self.process.wait(10)
                break
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self.log.close()


class Row:
    """The measurements of a store, and the reasons of those that are missing."""

    def __init__(self, size: str) -> None:
        self.size = size
        self.values: Dict[str, Optional[float]] = {}
        self.reasons: List[str] = []

    def take(self, column: str, measure: Callable[[], Optional[float]]) -> None:
        """Takes a measurement; a failure is a reason."""
        try:
            self.values[column] = measure()
        except (RuntimeError, KeyError, TypeError) as error:
            self.values[column] = None
            self.reasons.append(f"{self.size}, {column}: {str(error)[:200]}")

    def cells(self) -> List[str]:
        numbers = [self.values.get(column) for column in COLUMNS]
        return [self.size, *("–" if number is None else f"{number:,.0f}" for number in numbers)]


def set_value(selector: str, value: str) -> str:
    """A script that types into an element of a page that React may own."""
    return (
        f"{{ const box = document.querySelector({selector!r}); const type = Object.getPrototypeOf(box);"
        f" Object.getOwnPropertyDescriptor(type, 'value').set.call(box, {value!r});"
        " box.dispatchEvent(new Event('input', { bubbles: true })); box.dispatchEvent(new Event('change', { bubbles: true })); }"
    )


def pages_of_sweep(browser: Browser, row: Row, address: str, run: str, live: bool = False) -> None:
    """Measures the page of a run."""
    browser.open(f"{address}/runs/{run}")
    row.take("paint", browser.painted)
    browser.until("document.querySelector('#jobs-body tr')")
    row.take("list", lambda: float(browser.eval("performance.now()")))
    # A live page changes all the time: the list is there at once after an action.
    direct = "(() => {{ const begun = performance.now(); {0}; return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)))); }})()"
    timed = (lambda act: float(browser.eval(direct.format(act)))) if live else browser.timed
    row.take("filter", lambda: timed(set_value("#filter", "lr<0.001" if not live else "seed<100")))
    row.take("sort", lambda: timed("document.querySelector('[data-sort=\"metric:loss\"], [data-sort=\"axis:seed\"]').click()"))
    if live:
        return
    browser.timed(set_value("#filter", ""))
    browser.timed(set_value("#plots label:first-child select", "scatter"))
    row.take("brush", lambda: browser.drag("#plots canvas", [0.2, 0.1], [0.5, 0.9]))
    browser.timed(set_value("#filter", ""))
    browser.until("document.querySelector('#overlay canvas') || document.getElementById('overlay').hidden")
    if browser.eval("document.querySelector('#overlay canvas') !== null"):
        row.take("zoom", lambda: browser.drag("#overlay .u-over", [0.3, 0.5], [0.5, 0.6]))
    else:
        row.values["zoom"] = None


def measure_sweep(program: str, size: Size, row: Row) -> None:
    """Measures `sweep ui` with a finished run."""
    with tempfile.TemporaryDirectory(prefix="sweep-page-") as name:
        folder = Path(name)
        sweep(program, folder, size)
        run = next((folder / "results" / "runs").iterdir()).name
        serve_sweep(program, folder, run, row, False)


def serve_sweep(program: str, folder: Path, run: str, row: Row, live: bool) -> None:
    """Serves a folder and measures the page of a run."""
    port = "18787"
    server = Server([program, "ui", "--port", port], folder, {})
    address = f"http://127.0.0.1:{port}"
    try:
        server.wait(address)
        finish(server, row, lambda browser: pages_of_sweep(browser, row, address, run, live))
    finally:
        server.end()


def finish(server: Server, row: Row, measure: Callable[[Browser], None]) -> None:
    """Measures in a browser of its own, and then memory."""
    browser = Browser()
    try:
        measure(browser)
        row.take("tab MB", browser.memory)
        row.take("server MB", server.memory)
    finally:
        browser.close()


LIVE = """\
name: live
steps:
  train:
    uses: mock
    matrix: {{ seed: {{ range: [0, {jobs}] }} }}
    with: {{ seconds: 3600, steps: 36000 }}
    resources: {{ cpus: {share} }}
"""


def measure_live(program: str, jobs: int, row: Row) -> None:
    """Measures the page of a run with many jobs at once."""
    with tempfile.TemporaryDirectory(prefix="sweep-page-") as name:
        folder = Path(name)
        share = max(0.001, round(0.9 * len(os.sched_getaffinity(0)) / jobs, 4))
        (folder / "recipe.yaml").write_text(LIVE.format(jobs=jobs, share=share))
        run = Server([program, "run", "recipe.yaml"], folder, {"SWEEP_LOCKS": name})
        try:
            runs, begun = folder / "results" / "runs", time.monotonic()
            while time.monotonic() - begun < START:
                journals = list(runs.glob("*/journal.jsonl"))
                if journals and journals[0].read_text().count('"started"') >= jobs:
                    break
                time.sleep(0.5)
            else:
                raise RuntimeError("not all jobs have begun")
            serve_sweep(program, folder, next(runs.iterdir()).name, row, True)
        finally:
            run.end()


def table(rows: List[Row]) -> str:
    """The rows in Markdown."""
    lines = [["store", *COLUMNS], ["---", *("---:" for _ in COLUMNS)], *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="an optimized `sweep` or `sweep-engine`")
    parser.add_argument("--quick", action="store_true", help="small stores, to see that it works")
    asked = parser.parse_args()
    program = str(Path(asked.program).resolve())
    sizes = [Size(60, 10, 0), Size(20, 2, 500)] if asked.quick else [Size(2000, 50, 0), Size(1000, 2, 10_000)]
    rows: List[Row] = []

    def measured(size: str, measure: Callable[[Row], None]) -> None:
        print(f"{size} …", file=sys.stderr)
        row = Row(size)
        rows.append(row)
        try:
            measure(row)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            row.reasons.append(f"{size}: {str(error)[:300]}")

    for size in sizes:
        measured(size.words(), lambda row, size=size: measure_sweep(program, size, row))
    live = 20 if asked.quick else 200
    measured(f"{live} live jobs", lambda row: measure_live(program, live, row))
    print(table(rows))
    for reason in [reason for row in rows for reason in row.reasons]:
        print(f"- {reason}")


if __name__ == "__main__":
    main()
