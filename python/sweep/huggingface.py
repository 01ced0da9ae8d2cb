"""Callback for the `Trainer` of Hugging Face transformers.

    trainer = Trainer(…, callbacks=[sweep.huggingface.Callback()])
    trainer.train(resume_from_checkpoint=sweep.resume())
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Dict, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ._checkpoint import checkpoint
from ._contract import contract
from ._progress import Progress
from ._report import reporter
from ._steps import Last


class Callback(TrainerCallback):  # type: ignore[misc]
    """Reports what the trainer logs, declares its checkpoints, and stops it with a checkpoint when asked to.

    Training ends at the recipe's `until`, if that comes before `max_steps`. Each checkpoint that the trainer saves
    becomes one in the scratch folder, with hard links where possible, wherever `output_dir` is.
    """

    def __init__(self) -> None:
        self._last: Optional[Last] = None
        self._progress: Optional[Progress] = None
        self._end = 0
        self._saved: Optional[int] = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Finds where the training ends."""
        self._last = Last(reporter())
        asked = contract().until
        self._end = state.max_steps if asked is None else min(asked, state.max_steps)
        self._saved = None
        self._progress = Progress(self._end)
        reporter().ended_early = False

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Optional[Dict[str, Any]] = None,
        **_: Any,
    ) -> None:
        """Reports what the trainer logs."""
        if state.is_world_process_zero and logs:
            numbers = {name: value for name, value in logs.items() if not isinstance(value, str)}
            reporter().report(state.global_step, numbers)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Looks whether to stop."""
        step = state.global_step
        if self._progress is not None and state.is_world_process_zero:
            self._progress.at(step)
        asked = self._last is not None and self._last.reached(step)
        if (asked or step >= self._end) and not control.should_training_stop:
            control.should_training_stop = True
            control.should_save = True
            reporter().ended_early = asked and step < self._end
        return control

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Says whether all steps are done."""
        if self._progress is not None and state.is_world_process_zero and state.global_step >= self._end:
            self._progress.end()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Declares the checkpoint that the trainer has saved."""
        step = state.global_step
        folder = Path(args.output_dir) / f"checkpoint-{step}"
        if contract().scratch is None or not state.is_world_process_zero or step == self._saved or not folder.is_dir():
            return
        self._saved = step
        with checkpoint(folder.name, step=step) as path:
            shutil.copytree(folder, path, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
