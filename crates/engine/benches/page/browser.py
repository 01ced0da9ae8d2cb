"""A headless Chromium over its `DevTools` protocol, through two pipes: no port is opened, and no driver of another version is needed."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from typing import Any, Dict, List, Optional

#: Seconds that no single step takes.
PATIENCE = 300
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


class Browser:
    """A browser with one tab; ended by `close`."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = next((found for name in NAMES if (found := shutil.which(os.environ.get("CHROMIUM", name)))), None)
        if program is None:
            raise SystemExit("there is no Chromium: scripts/test-deps.sh installs it on Debian, CHROMIUM names another one")
        self.folder = tempfile.mkdtemp(prefix="sweep-page-")
        commands, to = os.pipe()
        back, answers = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={self.folder}", *(["--no-sandbox"] if os.getuid() == 0 else [])]
        start = ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", program, *flags]
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
        while True:
            while b"\0" not in self.rest:
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

    def until(self, expression: str) -> None:
        """Waits until an expression holds."""
        begun = time.monotonic()
        while True:
            try:
                if self.eval(f"Boolean({expression})"):
                    return
            except RuntimeError:
                # The page is being left.
                pass
            if time.monotonic() - begun > PATIENCE:
                raise RuntimeError(f"waited in vain until {expression}")
            time.sleep(0.02)

    def painted(self) -> float:
        """Milliseconds from the request of the page to the first paint with content."""
        self.until("performance.getEntriesByName('first-contentful-paint').length")
        return float(self.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime"))

    def settled(self, calm: float = 1000.0, since: Optional[float] = None) -> float:
        """Waits until nothing has changed for `calm` milliseconds; the time of the last change after `since`, in milliseconds."""
        self.until(f"window.__changed !== undefined && performance.now() - window.__changed > {calm}")
        return float(self.eval("window.__changed")) - (since or 0.0)

    def timed(self, act: str, calm: float = 1000.0) -> float:
        """Milliseconds from an action, as a script, to the last change that it causes in the page."""
        self.settled(calm)
        begun = self.eval(f"(() => {{ const begun = performance.now(); window.__changed = begun; {act}; return begun; }})()")
        return self.settled(calm, float(begun))

    def press(self, key: str, code: int) -> None:
        """Presses a key."""
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=key[:1] if kind == "keyDown" else "")

    def drag(self, selector: str, begin: List[float], end: List[float]) -> float:
        """Drags within an element, from one place to another in shares of its size; milliseconds to the last change."""
        self.settled()
        place = f"(() => {{ const element = document.querySelector({json.dumps(selector)}); element.scrollIntoView({{ block: 'center' }}); const {{ x, y, width, height }} = element.getBoundingClientRect(); return {{ x, y, width, height }}; }})()"
        box = self.eval(place)
        self.settled()
        begun = float(self.eval("performance.now()"))
        for kind, (x, y) in [("mouseMoved", begin), ("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)]:
            at = {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        return self.settled(since=begun)

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
        shutil.rmtree(self.folder, ignore_errors=True)


def resident(pid: int, peak: bool = False) -> float:
    """Megabytes of resident memory of a process, now or at most."""
    name = "VmHWM:" if peak else "VmRSS:"
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return next((float(line.split()[1]) / 1024 for line in status if line.startswith(name)), 0.0)
