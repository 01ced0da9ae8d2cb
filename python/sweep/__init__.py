"""Reports, parameters and checkpoints of a program that `sweep` runs.

A script that uses this module also runs by hand: `params` then answers the defaults, `report` does nothing, and no file
is written. Nothing but the standard library is needed.

    import sweep

    p = sweep.params(lr=1e-3, iters=1000)
    for step in sweep.steps(p.iters):
        loss = train(step, p.lr)
        sweep.report(step, loss=loss)
"""

from __future__ import annotations

from ._checkpoint import Checkpoint, checkpoint, resume
from ._contract import active, scratch, until
from ._params import Params, UnknownParameter, params
from ._ranks import rank
from ._report import report, should_stop
from ._results import ResultsError, curves, results
from ._show import Shown, show
from ._steps import Steps, steps

__all__ = [
    "Checkpoint",
    "Params",
    "ResultsError",
    "Shown",
    "Steps",
    "UnknownParameter",
    "active",
    "checkpoint",
    "curves",
    "params",
    "rank",
    "report",
    "results",
    "resume",
    "scratch",
    "should_stop",
    "show",
    "steps",
    "until",
]
