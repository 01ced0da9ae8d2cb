"""A headless Chromium over its `DevTools` protocol, through two pipes: no port is opened, and no driver of another version is needed."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

#: Seconds after which a step has not ended.
PATIENCE = 60
NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
FLAGS = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
]

#: Counts changes of the page and of its canvases from the beginning of a document on.
OBSERVED = """
(() => {
  window.__changed = performance.now();
  const changed = () => { window.__changed = performance.now(); };
  new MutationObserver(changed).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  for (const name of ["clearRect", "stroke", "fillText", "drawImage"]) {
    const plain = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) { changed(); return plain.apply(this, given); };
  }
})()
"""


class NotEnded(RuntimeError):
    """A step that has not ended in `PATIENCE` seconds."""


class Browser:
    """A browser with one tab; ended by `close`."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = next((found for name in NAMES if (found := shutil.which(os.environ.get("CHROMIUM", name)))), None)
        if program is None:
            raise SystemExit("there is no Chromium: scripts/test-deps.sh installs it on Debian, CHROMIUM names another one")
        self.folder = tempfile.mkdtemp(prefix="sweep-page-")
        commands, to = high_pipe()
        back, answers = high_pipe()
        flags = [*FLAGS, f"--user-data-dir={self.folder}", *(["--no-sandbox"] if os.getuid() == 0 else [])]
        # Other shells than Bash may know no descriptors of two digits.
        start = ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", program, *flags]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(start, pass_fds=(commands, answers), start_new_session=True, **quiet)
        os.close(commands)
        os.close(answers)
        self.to, self.back = to, os.fdopen(back, "rb", 0)
        self.last, self.rest, self.session = 0, b"", None  # type: int, bytes, Optional[str]
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page.enable", "Runtime.enable", "Performance.enable"]:
            self.call(domain)
        self.call("Page.addScriptToEvaluateOnNewDocument", source=OBSERVED)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def call(self, method: str, **params: Any) -> Dict[str, Any]:
        """Calls a method of the protocol."""
        self.last += 1
        message: Dict[str, Any] = {"id": self.last, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" not in self.rest:
                # A page whose script is busy does not answer.
                if not select.select([self.back], [], [], max(0.0, end - time.monotonic()))[0]:
                    raise NotEnded(f"{method} has no answer")
                part = self.back.read(1 << 16)
                if not part:
                    raise RuntimeError(f"the browser ended during {method}")
                self.rest += part
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def eval(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, url: str) -> None:
        """Begins to load a page."""
        self.call("Page.navigate", url=url)

    def until(self, expression: str, patience: float = PATIENCE) -> None:
        """Waits until an expression holds, for so many seconds at most."""
        begun = time.monotonic()
        while True:
            try:
                if self.eval(f"Boolean({expression})"):
                    return
            except NotEnded:
                if time.monotonic() - begun > patience:
                    raise
            except RuntimeError:
                # The page is being left.
                pass
            if time.monotonic() - begun > patience:
                raise NotEnded(f"waited in vain until {expression}")
            time.sleep(0.02)

    def reached(self, expression: str) -> float:
        """Milliseconds from the request of the page until an expression holds."""
        self.until(expression)
        return float(self.eval("performance.now()"))

    def painted(self) -> float:
        """Milliseconds from the request of the page to the first paint with content."""
        self.until("performance.getEntriesByName('first-contentful-paint').length")
        return float(self.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime"))

    def settled(self, calm: float = 1000.0, since: Optional[float] = None) -> float:
        """Waits until nothing has changed for `calm` milliseconds; the time of the last change after `since`, in milliseconds."""
        self.until(f"window.__changed !== undefined && performance.now() - Math.max(window.__changed, {since or 0}) > {calm}")
        changed = float(self.eval("window.__changed"))
        if since is not None and changed < since:
            raise RuntimeError("nothing has changed")
        return changed - (since or 0.0)

    def timed(self, act: str, calm: float = 1000.0) -> float:
        """Milliseconds from an action, as a script, to the last change that it causes in the page."""
        self.settled(calm)
        begun = self.eval(f"(() => {{ const begun = performance.now(); {act}; return begun; }})()")
        return self.settled(calm, float(begun))

    def press(self, key: str, code: int) -> None:
        """Presses a key."""
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=key[:1] if kind == "keyDown" else "")

    def drag(self, selector: str, begin: List[float], end: List[float]) -> float:
        """Drags within an element, from one place to another in shares of its size; milliseconds to the last change."""
        self.settled()
        box = self.place(selector)
        self.settled()
        begun = float(self.eval("performance.now()"))
        self.mouse(box, [("mouseMoved", begin), ("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)])
        return self.settled(since=begun)

    def click(self, selector: str) -> None:
        """Clicks an element with the mouse."""
        middle = [0.5, 0.5]
        self.mouse(self.place(selector), [("mouseMoved", middle), ("mousePressed", middle), ("mouseReleased", middle)])

    def place(self, selector: str) -> Dict[str, float]:
        """The box of an element, in the middle of the page."""
        script = f"(() => {{ const element = document.querySelector({json.dumps(selector)}); element.scrollIntoView({{ block: 'center' }}); const {{ x, y, width, height }} = element.getBoundingClientRect(); return {{ x, y, width, height }}; }})()"
        return dict(self.eval(script))

    def mouse(self, box: Dict[str, float], events: List[Tuple[str, List[float]]]) -> None:
        """Sends events of the mouse, at places in shares of the size of a box."""
        for kind, (x, y) in events:
            at = {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def until_differs(self, expression: str, act: Callable[[], None]) -> float:
        """Milliseconds from an action to another value of an expression, for pages that ask their server first."""
        self.settled()
        before = self.eval(expression)
        begun = float(self.eval("performance.now()"))
        act()
        return self.reached(f"({expression}) !== {json.dumps(before)}") - begun

    def picture(self, path: str) -> None:
        """Writes a picture of the tab as PNG."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def memory(self) -> float:
        """Megabytes of resident memory of the tab's processes: the largest of the renderers."""
        session, self.session = self.session, None
        try:
            processes = self.call("SystemInfo.getProcessInfo")["processInfo"]
        finally:
            self.session = session
        return max(resident(process["id"]) for process in processes if process["type"] == "renderer")

    def close(self) -> None:
        """Ends the browser."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        self.back.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def high_pipe() -> Tuple[int, int]:
    """A pipe whose descriptors are neither 3 nor 4, which the browser gets."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]


def resident(pid: int, peak: bool = False) -> float:
    """Megabytes of resident memory of a process, now or at most."""
    name = "VmHWM:" if peak else "VmRSS:"
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return next((float(line.split()[1]) / 1024 for line in status if line.startswith(name)), 0.0)
