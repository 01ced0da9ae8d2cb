"""Progress of a training whose loop is another's."""

from __future__ import annotations

import time

from ._report import reporter

#: Seconds between lines.
INTERVAL = 0.5


class Progress:
    """Lines that say how far a loop is, a few a second at most, as far as the program does not report steps itself."""

    def __init__(self, total: int) -> None:
        self._due = 0.0
        self._total = total
        if total > 0:
            reporter().write({"total": total}, now=True)

    def at(self, step: int) -> None:
        """Says that so many steps are done."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + INTERVAL
            reports = reporter()
            if not reports.spoke:
                reports.write({"step": step})
            reports.spoke = False

    def end(self) -> None:
        """Says that all steps are done."""
        reporter().write({"step": self._total})
