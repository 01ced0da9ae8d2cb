"""Loop over steps that resumes, stops and shows progress."""

from __future__ import annotations

import os
import time
from typing import Iterator, Optional

from ._checkpoint import resumed_step
from ._contract import contract
from ._progress import Progress
from ._ranks import rank, world_size
from ._report import Reporter, reporter, whole
from ._signals import Terminations

#: Seconds that all ranks have to learn at which step they stop.
NOTICE = 1.0


class Last:
    """The last step once the program was asked to stop: the same on all ranks, so that none waits for another.

    Alone, it is the step at which the request is seen. Of several ranks, the first chooses a step a little ahead and
    writes it beside the file that asks them to stop.
    """

    def __init__(self, first: Reporter) -> None:
        self._reporter = first
        self._step: Optional[int] = None
        self._world = world_size()
        self._path = f"{first.stop}.step"
        self._began = time.monotonic()
        self._steps = 0
        if self._world > 1 and rank() == 0 and first.stop is not None:
            _remove(self._path)

    def reached(self, step: int) -> bool:
        """True if no step follows this one."""
        self._steps += 1
        if self._step is None and self._reporter.requested():
            self._step = self._choose(step)
        return self._step is not None and step >= self._step

    def _choose(self, step: int) -> Optional[int]:
        if self._world == 1:
            return step
        if rank() != 0:
            return _read(self._path)
        each = (time.monotonic() - self._began) / self._steps
        chosen = step + max(2, int(NOTICE / max(each, 1e-6)))
        new = f"{self._path}.new"
        with open(new, "w", encoding="ascii") as file:
            file.write(f"{chosen}\n")
        os.replace(new, self._path)
        return chosen


def _read(path: str) -> Optional[int]:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except FileNotFoundError:
        pass


class Steps:
    """The steps that are left to make; see `steps`."""

    def __init__(self, start: int, end: int) -> None:
        #: The first step.
        self.start = start
        #: The step behind the last one.
        self.end = end

    def __len__(self) -> int:
        return max(0, self.end - self.start)

    def __iter__(self) -> Iterator[int]:
        reports = reporter()
        progress = Progress(self.end) if rank() == 0 else None
        last = Last(reports)
        alone = world_size() == 1
        step = self.start - 1
        is_last = False
        reports.ended_early = False
        try:
            with Terminations(reports):
                for step in range(self.start, self.end):
                    is_last = last.reached(step)
                    if progress is not None:
                        progress.at(step)
                    reports.loop_step = step
                    reports.told = False
                    reports.is_last = None if alone else is_last
                    yield step
                    if is_last or reports.told:
                        break
        finally:
            asked = is_last or reports.told
            is_complete = step + 1 >= self.end
            reports.ended_early = asked and not is_complete
            if is_complete and progress is not None:
                progress.end()
            reports.is_last = None
            reports.told = False


def steps(n: int, start: Optional[int] = None) -> Steps:
    """Iterates over the steps `0 … n-1` of a training.

    - If the program has called `sweep.resume()` and got a checkpoint of this module, the loop starts at the step after
      the one in which the checkpoint was made. `start` says otherwise.
    - It ends at the recipe's `until`, if that comes first.
    - When the program is asked to stop, `sweep.report` answers True, and the loop ends after that step, at the latest
      after the next one. On several ranks, all end after the same step. In the loop, the first SIGTERM is such a
      request, unless the program handles it itself.

    A program has one such loop. Raises `TypeError` or `ValueError` for numbers that are no steps.
    """
    n = whole(n)
    asked = contract().until
    if asked is not None and asked > n:
        reporter().warn("until", f"`until` is {asked}, but the program's loop ends at {n}")
    end = n if asked is None else min(n, asked)
    begin = resumed_step() if start is None else whole(start)
    return Steps(begin, end)
