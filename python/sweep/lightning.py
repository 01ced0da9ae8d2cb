"""Logger and callback for Lightning (`lightning.pytorch` or `pytorch_lightning`).

    trainer = Trainer(logger=sweep.lightning.Logger(), callbacks=[sweep.lightning.Callback()], …)
    trainer.fit(model, ckpt_path=sweep.resume())
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Dict, Mapping, Optional, Union

from ._checkpoint import checkpoint
from ._contract import contract
from ._progress import Progress
from ._report import reporter
from ._steps import Last


def _package() -> str:
    """The package that the program uses, or else one that is installed."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in names:
        if name in sys.modules:
            return name
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
            continue
        return name
    raise ModuleNotFoundError("neither `lightning` nor `pytorch_lightning` is installed", name="lightning")


_base = _package()
_Logger: Any = importlib.import_module(f"{_base}.loggers.logger").Logger
_Callback: Any = importlib.import_module(f"{_base}.callbacks").Callback


class Logger(_Logger):  # type: ignore[misc]
    """Reports the metrics that Lightning logs, at its global step. Hyperparameters are in the recipe."""

    @property
    def name(self) -> str:
        """The name of the logger."""
        return "sweep"

    @property
    def version(self) -> Union[int, str]:
        """The version of the run: there is one."""
        return 0

    @property
    def save_dir(self) -> Optional[str]:
        """The folder for files: the one in which the program runs."""
        return os.getcwd()

    @property
    def experiment(self) -> None:
        """Nothing: reports need no object."""
        return None

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Does nothing: the parameters are those of the recipe."""

    def log_metrics(self, metrics: Mapping[str, float], step: Optional[int] = None) -> None:
        """Reports metrics."""
        numbers: Dict[str, Any] = {name: value for name, value in metrics.items() if name != "step"}
        reporter().report(step, numbers)


class Callback(_Callback):  # type: ignore[misc]
    """Saves checkpoints in the scratch folder, and stops the training with one when asked to.

    A checkpoint is made at the end of each epoch, or every `every_n_steps` steps of the optimizer. Training ends at the
    recipe's `until`, if that comes first. A stop comes at the end of a batch, also before `min_steps`.
    """

    def __init__(self, every_n_steps: Optional[int] = None) -> None:
        self._every = every_n_steps
        self._last: Optional[Last] = None
        self._progress: Optional[Progress] = None
        self._end: Optional[int] = None
        self._saved = 0
        self._ends = False
        self._in_batch = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Finds where the training ends."""
        self._last = Last(reporter())
        self._end = _end(trainer)
        self._saved = trainer.global_step
        self._ends = False
        if trainer.is_global_zero:
            self._progress = Progress(self._end or 0)
        reporter().ended_early = False

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Looks whether to save or to stop."""
        step = trainer.global_step
        if self._progress is not None:
            self._progress.at(step)
        asked = self._last is not None and self._last.reached(step)
        at_end = self._end is not None and step >= self._end
        self._in_batch = True
        if (asked or at_end) and not self._ends:
            self._ends = trainer.should_stop = True
            # Otherwise the loop goes on to `min_steps` and `min_epochs`.
            trainer.fit_loop.min_epochs, trainer.fit_loop.epoch_loop.min_steps = None, None
            reporter().ended_early = asked and not at_end
            self._save(trainer)
        elif self._every is not None and step - self._saved >= self._every:
            self._save(trainer)
        self._in_batch = False

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Dict[str, Any]) -> None:
        """Counts the batch that has just ended: otherwise Lightning would make it again after a resume."""
        if not self._in_batch:
            return
        fit = checkpoint.get("loops", {}).get("fit_loop", {})
        for counts in fit.get("epoch_loop.batch_progress", {}).values():
            if isinstance(counts, dict) and "processed" in counts:
                counts["completed"] = counts["processed"]
        state = fit.get("epoch_loop.state_dict", {})
        if "_batches_that_stepped" in state and not trainer.fit_loop._should_accumulate():
            state["_batches_that_stepped"] += 1

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Saves, unless the training ends."""
        if self._every is None and not self._ends:
            self._save(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Says whether all steps are done."""
        if self._progress is not None and self._end is not None and trainer.global_step >= self._end:
            self._progress.end()

    def _save(self, trainer: Any) -> None:
        step = trainer.global_step
        if contract().scratch is None or step == self._saved:
            return
        self._saved = step
        # Every rank takes part; the first one writes.
        with checkpoint("state.ckpt", step=step) as path:
            trainer.save_checkpoint(path)


def _end(trainer: Any) -> Optional[int]:
    """The global step at which the training ends, if that is known."""
    ends = []
    if trainer.max_steps is not None and trainer.max_steps > 0:
        ends.append(int(trainer.max_steps))
    if trainer.max_epochs is not None and trainer.max_epochs > 0 and not _is_infinite(trainer.num_training_batches):
        per_epoch = -(-int(trainer.num_training_batches) // int(trainer.accumulate_grad_batches))
        ends.append(per_epoch * int(trainer.max_epochs))
    asked = contract().until
    if asked is not None:
        ends.append(asked)
    return min(ends, default=None)


def _is_infinite(batches: Union[int, float]) -> bool:
    return batches == float("inf")
