"""Lines of the report file: encoded, buffered, and appended with one write."""

from __future__ import annotations

import atexit
import json
import operator
import os
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from typing import Any, Dict, List, Optional, Set

from ._contract import contract
from ._ranks import rank

#: Seconds between writes.
INTERVAL = 0.2
#: Seconds between looks for the file that asks the program to stop.
LOOK = 0.1
#: Bytes that wait for a disk that takes none; what is beyond is lost.
LIMIT = 1 << 20


class Reporter:
    """The report file of this process."""

    def __init__(self, path: Optional[str], stop: Optional[str], prints: bool = False) -> None:
        self.path = path
        self.stop = stop
        self.prints = prints
        #: The step that was reported last.
        self.step: Optional[int] = None
        #: The newest step of the loop over `steps`, if there is one.
        self.loop_step: Optional[int] = None
        #: The number of steps, if the program has reported it.
        self.total: Optional[int] = None
        #: True if a step was reported since it was set to False.
        self.spoke = False
        #: True while the file that asks the program to stop is known to exist.
        self.stopping = False
        #: True if the program was told to stop and has not gone on since.
        self.told = False
        #: Set by a loop that knows its end: True if it ended early because it was asked to.
        self.ended_early: Optional[bool] = None
        #: Answer of a loop on several ranks, which must stop at the same step; None without one.
        self.is_last: Optional[bool] = None
        #: The process that it belongs to; a forked one is another.
        self.owner = os.getpid()
        self._fresh()
        if path is not None:
            atexit.register(self._end)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._fresh)

    def _fresh(self) -> None:
        """The state of a process that has written nothing; in a forked one, the lines that wait are its parent's."""
        # A signal's handler may report while the lock is held.
        self._lock = threading.RLock()
        self._lines: List[bytes] = []
        self._size = 0
        self._file: Optional[int] = None
        self._due = 0.0
        self._look = 0.0
        self._wake: Optional[threading.Event] = None
        self._warned: Set[str] = set()
        # A forked process may end without running what is registered for the end.
        self._at_once = os.getpid() != self.owner

    def report(self, step: Optional[int], values: Dict[str, Any]) -> bool:
        """Adds a line; answers whether the program shall stop."""
        if step is not None:
            step = whole(step)
            if self.step is not None and self.told and step > self.step:
                self.told = False
            self.step = step
            self.spoke = True
        if "total" in values:
            self.total = whole(values["total"], "`total`, the number of all steps,")
        if self.path is not None:
            if "rank" in values or rank() == 0:
                self.write(values, step)
        elif self.prints and rank() == 0:
            self._print(step, values)
        return self.shall_stop()

    def shall_stop(self) -> bool:
        """True if the program shall stop; remembers that it was told."""
        if self.is_last is not None:
            return self.is_last
        told = self.requested()
        if told:
            self.told = True
            self.flush()
        return told

    def requested(self) -> bool:
        """True if the file that asks the program to stop exists."""
        if self.stopping or self.stop is None:
            return self.stopping
        now = time.monotonic()
        if now >= self._look:
            self._look = now + LOOK
            self.stopping = os.path.exists(self.stop)
        return self.stopping

    def write(self, values: Dict[str, Any], step: Optional[int] = None, now: bool = False) -> None:
        """Adds a line; `now` writes it before returning."""
        if self.path is None:
            return
        try:
            text = _line(step, values)
        except Exception:
            text = _line(step, self._usable(values, ""))
        line = text.encode("ascii")
        with self._lock:
            self._lines.append(line)
            self._size += len(line)
            is_full = self._size > LIMIT // 8 and "" not in self._warned
            if now or self._at_once or is_full or time.monotonic() >= self._due:
                self._write()
            elif len(self._lines) == 1:
                self._later()

    def flush(self) -> None:
        """Writes what waits."""
        if self._lines:
            with self._lock:
                self._write()

    def warn(self, name: str, text: str) -> None:
        """Tells the user something once for each name."""
        if name in self._warned:
            return
        self._warned.add(name)
        _tell(text)
        if self.path is not None and rank() == 0:
            self.write({"note": text})

    def _usable(self, values: Mapping[Any, Any], within: str) -> Dict[str, Any]:
        """The values that can be written; the others are warned of, because a training must not end for them."""
        usable: Dict[str, Any] = {}
        for name, value in values.items():
            full = f"{within}{name}"
            if isinstance(value, Mapping) and len(within) < 200:
                usable[str(name)] = self._usable(value, full + ".")
                continue
            try:
                _encode({"": value})
                usable[str(name)] = value
            except Exception as error:
                kind = type(value).__name__
                self.warn(full, f"`{full}` is a {kind} that is no number ({error}); it is not reported")
        return usable

    def _write(self) -> None:
        lines, self._lines, size, self._size = self._lines, [], self._size, 0
        self._due = time.monotonic() + INTERVAL
        rest = memoryview(b"".join(lines))
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
                self._file = os.open(str(self.path), flags, 0o644)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            # What was not taken comes first in the next write, so that no line is torn for long.
            if size <= LIMIT:
                self._lines.insert(0, bytes(rest))
                self._size += len(rest)
            if "" not in self._warned:
                self._warned.add("")
                _tell(f"the report file {self.path} cannot be written: {error}")

    def _later(self) -> None:
        """Has the thread write what waits."""
        if self._wake is None:
            self._wake = threading.Event()
            try:
                threading.Thread(target=self._run, args=(self._wake,), name="sweep-report", daemon=True).start()
            except RuntimeError:  # The interpreter ends.
                self._at_once = True
                self._write()
                return
        self._wake.set()

    def _run(self, wake: threading.Event) -> None:
        while True:
            wake.wait()
            time.sleep(INTERVAL)
            wake.clear()
            self.flush()

    def _end(self) -> None:
        """Writes what waits, and whether the program ended early."""
        self._at_once = True
        if os.getpid() == self.owner and rank() == 0 and not hasattr(sys, "last_type"):
            # Steps count from 0 or from 1.
            is_complete = self.total is not None and self.step is not None and self.step + 1 >= self.total
            if self.told and not is_complete if self.ended_early is None else self.ended_early:
                self.write({"stopped": True})
        self.flush()

    def _print(self, step: Optional[int], values: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if step is None or now >= self._due:
            self._due = now + 2 * INTERVAL
            shown = " ".join(f"{name}={_shown(value)}" for name, value in values.items())
            print(f"sweep: {'' if step is None else f'step {step} '}{shown}", file=sys.stderr, flush=True)


def _tell(text: str) -> None:
    """Warns the user. A training must not end for it, even where warnings are errors."""
    try:
        warnings.warn(f"sweep: {text}", RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        print(f"sweep: {text}", file=sys.stderr, flush=True)


def _plain(value: Any) -> Any:
    """A number of NumPy, a tensor with one element, or anything else that converts to a float."""
    if isinstance(value, Mapping):
        return dict(value)
    item = getattr(value, "item", None)
    if item is not None:
        plain = item()
        if type(plain) is not type(value):
            return plain
    return float(value)


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode
#: Encoded names, as many as a report may have series.
_names: Dict[str, str] = {}


def _line(step: Optional[int], values: Dict[str, Any]) -> str:
    """A line of the report. Floats and integers are written here, because the encoder takes longer to begin."""
    parts = [] if step is None else [f'"step":{step}']
    for name, value in values.items():
        key = _names.get(name)
        if key is None:
            key = _encode(name) + ":"
            if len(_names) < 200:
                _names[name] = key
        # A difference that is not 0 is NaN: the value is not finite.
        if type(value) is int or (type(value) is float and value - value == 0.0):
            parts.append(f"{key}{value!r}")
        else:
            parts.append(key + _encode(value))
    return "{" + ",".join(parts) + "}\n"


def _shown(value: Any) -> str:
    try:
        number = _plain(value)
        return f"{number:.6g}" if isinstance(number, (int, float)) else str(number)
    except Exception:
        return str(value)


def whole(step: Any, what: str = "a step") -> int:
    """A step as an integer; `what` names it in messages. Raises `TypeError` or `ValueError` for what is none."""
    if type(step) is not int:
        item = getattr(step, "item", None)
        plain = step if item is None else item()
        if isinstance(plain, float) and plain.is_integer():
            plain = int(plain)
        try:
            step = operator.index(plain)
        except TypeError:
            raise TypeError(f"{what} is an integer of at least 0, not {step!r}") from None
    if step < 0:
        raise ValueError(f"{what} is an integer of at least 0, not {step}")
    return int(step)


_reporter: Optional[Reporter] = None


def reporter() -> Reporter:
    """The reporter of this process."""
    global _reporter
    if _reporter is None:
        found = contract()
        _reporter = Reporter(found.report, found.stop, found.prints)
    return _reporter


def report(step: Optional[int] = None, /, **values: Any) -> bool:
    """Reports values at a step of a curve, or, without a step, final metrics. True if the program shall save and end.

    Values are numbers, also those of NumPy and tensors with one element, `{"value": …, "unit": "s"}`, or nested
    dictionaries. On several ranks only rank 0 writes, unless `rank` is given. A value that is no number is left out,
    with one warning. Raises `TypeError` or `ValueError` for a step that is no integer of at least 0.
    """
    if "step" in values:
        if step is not None:
            raise TypeError("`sweep.report` got two steps")
        step = values.pop("step")
    return (_reporter or reporter()).report(step, values)


def should_stop() -> bool:
    """True if `sweep` has asked the program to save and end."""
    return reporter().shall_stop()
