"""SIGTERM as a request to stop: batch systems send it to every process of a job, not only to `sweep`."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Optional, Type

from ._report import Reporter


class Terminations:
    """Context in which the first SIGTERM asks the program to stop, and the second one ends it.

    A program that handles SIGTERM itself, or has no request to look for, keeps what it has.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._is_set = False

    def __enter__(self) -> None:
        if self._reporter.stop is None or not _is_main() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return
        signal.signal(signal.SIGTERM, self._ask)
        self._is_set = True

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        # A program may have set its own meanwhile.
        if self._is_set and _is_main() and signal.getsignal(signal.SIGTERM) == self._ask:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._is_set = False

    def _ask(self, number: int, _frame: Optional[FrameType]) -> None:
        self._reporter.stopping = True
        signal.signal(number, signal.SIG_DFL)
        self._is_set = False
        # A process that was forked meanwhile looks for no request.
        if os.getpid() != self._reporter.owner:
            os.kill(os.getpid(), number)


def _is_main() -> bool:
    """True in the thread that may set what a signal does."""
    return threading.current_thread() is threading.main_thread()
