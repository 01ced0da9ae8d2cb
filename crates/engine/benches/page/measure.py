"""The pages of `sweep ui` in a real Chromium, and beside them those of MLflow and trackio with the same runs.

    python3 crates/engine/benches/page/measure.py PROGRAM [--quick] [--peers PYTHON] [--only NAME,…]

PROGRAM is an optimized `sweep` or `sweep-engine`. Three stores are measured: 2,000 jobs with 50 metrics, 1,000 jobs with curves of
10,000 points, and, of `sweep` alone, a live run with 200 jobs at once; `--quick` takes small ones, to see that it works. PYTHON is the
interpreter of an environment with MLflow and trackio (`pip install mlflow trackio`); their servers have their default settings.

All times are milliseconds. *Paint* is the first paint with content, *list* the first run in the list of runs, *curves* the first chart
with curves, all from the request of a page that has been opened once before. *Filter*, *sort*, *brush* and *zoom* are the last change
of the page that follows the action; after it nothing changes for a second. MLflow asks its server to filter and sort: there it is the
first change of the list. The filter is a learning rate; trackio filters its list by a name, and not its charts. A step that takes more
than 60 s is marked. Memory is resident, in megabytes: the most of the server's processes, and that of the tab after all actions. A dash
is an action that a page does not have; the reasons of marks and failures are below the table. The first page of MLflow lists 100 runs,
and its charts show 10; `sweep` and trackio have all of them. Run it on an otherwise idle machine.
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
from typing import Callable, Dict, List

from browser import PATIENCE, Browser, NotEnded, resident
from stores import Size, mlflow, sweep, trackio

NAMES = ["sweep", "mlflow", "trackio"]
COLUMNS = ["paint", "list", "curves", "filter", "sort", "brush", "zoom", "server MB", "tab MB"]
#: Seconds in which a server must answer, and show a page for the first time.
START = 300


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

    def __init__(self, name: str, size: str) -> None:
        self.name, self.size = name, size
        self.values: Dict[str, str] = {}
        self.reasons: List[str] = []

    def take(self, column: str, measure: Callable[[], float]) -> None:
        """Takes a measurement; a failure is a reason."""
        try:
            self.values[column] = f"{measure():,.0f}"
        except NotEnded as error:
            self.values[column] = f"> {PATIENCE} s"
            self.fails(f"{column}: did not end: {error}")
        except (RuntimeError, KeyError, TypeError) as error:
            self.values[column] = "failed"
            self.fails(f"{column}: {error}")

    def fails(self, reason: str) -> None:
        """Adds a reason."""
        self.reasons.append(f"{self.name}, {self.size}, {reason[:300]}")

    def cells(self) -> List[str]:
        return [self.name, self.size, *(self.values.get(column, "–") for column in COLUMNS)]


def set_value(selector: str, value: str) -> str:
    """A script that types into an element of a page that React may own."""
    return (
        f"{{ const box = document.querySelector({selector!r}); const type = Object.getPrototypeOf(box);"
        f" Object.getOwnPropertyDescriptor(type, 'value').set.call(box, {value!r});"
        " box.dispatchEvent(new Event('input', { bubbles: true })); box.dispatchEvent(new Event('change', { bubbles: true })); }"
    )


def again(browser: Browser, url: str, expression: str) -> None:
    """Opens a page a second time, as on most visits: its server has started all parts, and the browser has the page's files."""
    browser.open(url)
    browser.until(expression, START)
    browser.open("about:blank")
    browser.open(url)


def pages_of_sweep(browser: Browser, row: Row, address: str, run: str, live: bool, has_curves: bool) -> None:
    """Measures the page of a run."""
    line = "document.querySelector('#jobs-body tr')"
    again(browser, f"{address}/runs/{run}", line)
    row.take("paint", browser.painted)
    row.take("list", lambda: browser.reached(line))
    # A live page changes all the time: the list is there at once after an action.
    direct = "(() => {{ const begun = performance.now(); {0}; return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)))); }})()"
    timed = (lambda act: float(browser.eval(direct.format(act)))) if live else browser.timed
    if has_curves:
        row.take("curves", lambda: browser.reached("document.querySelector('#overlay canvas')"))
    row.take("filter", lambda: timed(set_value("#filter", "lr=0.0001" if not live else "seed<100")))
    row.take("sort", lambda: timed("document.querySelector('[data-sort=\"metric:loss\"], [data-sort=\"axis:seed\"]').click()"))
    if live:
        return
    browser.eval(set_value("#filter", ""))
    browser.eval(set_value("#plots label:first-child select", "scatter"))
    row.take("brush", lambda: browser.drag("#plots canvas", [0.2, 0.1], [0.5, 0.9]))
    browser.eval(set_value("#filter", ""))
    if has_curves:
        row.take("zoom", lambda: browser.drag("#overlay .u-over", [0.3, 0.5], [0.5, 0.6]))


def pages_of_mlflow(browser: Browser, row: Row, address: str, size: Size) -> None:
    """Measures the table of runs, and the charts of the first ones."""
    run = "/run-\\d/.test(document.body.innerText)"
    again(browser, f"{address}/#/experiments/1/runs?compareRunsMode=TABLE", run)
    row.take("paint", browser.painted)
    row.take("list", lambda: browser.reached(run))

    def enter() -> None:
        browser.eval("document.querySelector('[data-testid=search-box]').focus()")
        browser.eval(set_value("[data-testid=search-box]", 'params.lr = "0.0001"'))
        browser.press("Enter", 13)

    row.take("filter", lambda: browser.until_differs("document.body.innerText.match(/\\d+(?= matching run)/)?.[0]", enter))
    order = lambda: browser.click("[data-testid=sort-header-Created]")
    row.take("sort", lambda: browser.until_differs("[...document.querySelectorAll('[row-index=\"0\"]')].map((row) => row.innerText).join()", order))
    if size.points:
        # Else the page has the filter and the order of the last visit.
        browser.eval("localStorage.clear()")
        again(browser, f"{address}/#/experiments/1/runs?compareRunsMode=CHART", "document.querySelector('.js-line')")
        row.take("curves", lambda: browser.reached("document.querySelector('.js-line')"))
        row.take("zoom", lambda: browser.drag(".plotly .nsewdrag", [0.3, 0.5], [0.7, 0.6]))


def pages_of_trackio(browser: Browser, row: Row, address: str, size: Size) -> None:
    """Measures the dashboard, whose list of runs is beside its charts; it has no order."""
    run = "/run-\\d/.test(document.body.innerText)"
    again(browser, f"{address}/?project=page", run)
    row.take("paint", browser.painted)
    row.take("list", lambda: browser.reached(run))
    if size.points:
        row.take("curves", lambda: browser.reached("document.querySelector('canvas')"))
    row.take("filter", lambda: browser.timed(set_value("input[placeholder='Type to filter...']", "run-1")))
    browser.eval(set_value("input[placeholder='Type to filter...']", ""))
    if size.points:
        row.take("zoom", lambda: browser.drag("canvas", [0.3, 0.3], [0.5, 0.6]))


def measure_sweep(program: str, size: Size, row: Row) -> None:
    """Measures `sweep ui` with a finished run."""
    with tempfile.TemporaryDirectory(prefix="sweep-page-") as name:
        folder = Path(name)
        sweep(program, folder, size)
        run = next((folder / "results" / "runs").iterdir()).name
        serve_sweep(program, folder, run, row, False, bool(size.points))


def serve_sweep(program: str, folder: Path, run: str, row: Row, live: bool, has_curves: bool) -> None:
    """Serves a folder and measures the page of a run."""
    port = "18787"
    server = Server([program, "ui", "--port", port], folder, {})
    address = f"http://127.0.0.1:{port}"
    try:
        server.wait(address)
        finish(server, row, lambda browser: pages_of_sweep(browser, row, address, run, live, has_curves))
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
            serve_sweep(program, folder, next(runs.iterdir()).name, row, True, False)
        finally:
            run.end()


def measure_mlflow(python: str, size: Size, row: Row) -> None:
    """Measures MLflow's server over a database."""
    with tempfile.TemporaryDirectory(prefix="sweep-page-") as name:
        folder, port = Path(name), "18788"
        mlflow(python, folder, size)
        database = f"sqlite:///{folder}/mlflow.db"
        command = [python, "-m", "mlflow", "server", "--backend-store-uri", database, "--host", "127.0.0.1", "--port", port]
        serve_peer(command, folder, {"MLFLOW_DISABLE_TELEMETRY": "true"}, port, lambda *given: pages_of_mlflow(*given, size), row)


def measure_trackio(python: str, size: Size, row: Row) -> None:
    """Measures trackio's dashboard."""
    with tempfile.TemporaryDirectory(prefix="sweep-page-") as name:
        folder, port = Path(name), "18789"
        trackio(python, folder, size)
        variables = {"TRACKIO_DIR": str(folder / "trackio"), "GRADIO_SERVER_PORT": port, "GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
        command = [python, "-c", "import trackio; trackio.show(project='page', open_browser=False)"]
        serve_peer(command, folder, variables, port, lambda *given: pages_of_trackio(*given, size), row)


def serve_peer(
    command: List[str], folder: Path, variables: Dict[str, str], port: str, pages: Callable[[Browser, Row, str], None], row: Row
) -> None:
    """Measures the pages of another server."""
    server, address = Server(command, folder, variables), f"http://127.0.0.1:{port}"
    try:
        server.wait(address)
        finish(server, row, lambda browser: pages(browser, row, address))
    finally:
        server.end()


def table(rows: List[Row]) -> str:
    """The rows in Markdown."""
    lines = [["program", "store", *COLUMNS], ["---", "---", *("---:" for _ in COLUMNS)], *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="an optimized `sweep` or `sweep-engine`")
    parser.add_argument("--quick", action="store_true", help="small stores, to see that it works")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that can import mlflow and trackio")
    parser.add_argument("--only", metavar="NAME,…", default=",".join(NAMES), help=f"the programs to measure, of {', '.join(NAMES)}")
    asked = parser.parse_args()
    program, only = str(Path(asked.program).resolve()), asked.only.split(",")
    if set(only) - set(NAMES):
        parser.error(f"--only has names of {', '.join(NAMES)}, separated by commas")
    sizes = [Size(60, 10, 0), Size(20, 2, 500)] if asked.quick else [Size(2000, 50, 0), Size(1000, 2, 10_000)]
    rows: List[Row] = []

    def measured(name: str, size: str, measure: Callable[[Row], None]) -> None:
        if name not in only:
            return
        print(f"{name}: {size} …", file=sys.stderr)
        row = Row(name, size)
        rows.append(row)
        try:
            measure(row)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            row.fails(str(error))
        # A long benchmark that is interrupted has said something.
        print(table([row]).splitlines()[-1], *row.reasons, sep="\n", file=sys.stderr)

    for size in sizes:
        measured("sweep", size.words(), lambda row, size=size: measure_sweep(program, size, row))
        if asked.peers:
            measured("mlflow", size.words(), lambda row, size=size: measure_mlflow(asked.peers, size, row))
            measured("trackio", size.words(), lambda row, size=size: measure_trackio(asked.peers, size, row))
    live = 20 if asked.quick else 200
    measured("sweep", f"{live} live jobs", lambda row: measure_live(program, live, row))
    print(table(rows))
    for reason in [reason for row in rows for reason in row.reasons]:
        print(f"- {reason}")


if __name__ == "__main__":
    main()
