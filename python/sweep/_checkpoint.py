"""Checkpoints in the scratch folder: written aside, synced, renamed, declared."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import List, Optional, Type

from ._contract import contract
from ._ranks import rank
from ._report import reporter, whole

#: Number of checkpoints that are kept.
KEPT = 2
#: Seconds for which more are kept: a checkpoint may be the newest that the engine knows.
YOUNG = 5.0
#: Number of young checkpoints that are kept.
KEPT_YOUNG = 20

_FOLDER = "checkpoints"
_ABOUT = "sweep.json"
_NEW = ".new-"
#: The first step of the loop and the first reported step after the checkpoint that the program has asked for.
_resumed = (0, 0)


class Checkpoint:
    """A checkpoint to write; see `checkpoint`."""

    def __init__(self, name: str, step: Optional[int]) -> None:
        self._name = name
        self._step = step
        self._folder: Optional[Path] = None
        self._keep = True

    def __fspath__(self) -> str:
        text = "a checkpoint is written in a block: `with sweep.checkpoint() as path: torch.save(state, path)`"
        raise TypeError(text)

    def __enter__(self) -> Path:
        scratch = contract().scratch
        self._keep = scratch is not None and rank() == 0
        if scratch is None and rank() == 0:
            text = "by hand a checkpoint is discarded; SWEEP_SCRATCH=FOLDER keeps it"
            reporter().warn("checkpoint", text)
        if scratch is not None and self._keep:
            parent = scratch / _FOLDER
            parent.mkdir(parents=True, exist_ok=True)
            _clear(parent)
            self._folder = Path(tempfile.mkdtemp(prefix=f"{_NEW}{os.getpid()}-", dir=parent))
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="sweep-checkpoint-"))
        return self._folder / self._name

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        folder, self._folder = self._folder, None
        if folder is None:
            return
        try:
            if kind is None and self._keep:
                if not os.path.lexists(folder / self._name):
                    text = "nothing was written to the path of the checkpoint; write to the path that `with` gives"
                    raise FileNotFoundError(f"{folder / self._name}: {text}")
                self._commit(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _commit(self, folder: Path) -> None:
        reports = reporter()
        made = reports.step if reports.loop_step is None else reports.loop_step
        done = made if self._step is None else self._step
        reported = -1 if reports.step is None else reports.step
        about = {"format": 1, "next_step": 0 if done is None else done + 1, "next_report": reported + 1}
        with open(folder / _ABOUT, "w", encoding="ascii") as file:
            json.dump(about, file)
        sync(folder)
        parent = folder.parent
        os.chmod(folder, 0o755)
        while True:
            number = 1 + max((int(old.name) for old in _finished(parent)), default=0)
            place = parent / f"{number:06}"
            if not place.exists():
                break
        os.rename(folder, place)
        _sync_one(parent)
        reports.write({"checkpoint": f"{_FOLDER}/{place.name}/{self._name}"}, now=True)
        _prune(parent)


def checkpoint(name: Optional[str] = None, *, step: Optional[int] = None) -> Checkpoint:
    """A context manager whose path is a file or folder to save to.

        with sweep.checkpoint() as path:
            torch.save(model.state_dict(), path)

    At the end of the block the checkpoint is on disk and declared: a later attempt gets it from `resume`. After an
    exception in the block there is none. The last two are kept. `step` is the last step whose work it contains, by
    default the step of the loop, or else the step that was reported last. Only rank 0 keeps what it writes. By hand,
    the checkpoint is discarded unless SWEEP_SCRATCH names a folder.
    """
    name = "checkpoint" if name is None else name
    if name in ("", ".", "..", _ABOUT) or "/" in name or os.sep in name or "\0" in name:
        raise ValueError(f"the name of a checkpoint is that of a file, not {name!r}")
    return Checkpoint(name, None if step is None else whole(step))


def resume() -> Optional[Path]:
    """The newest checkpoint of an earlier attempt, or None. After this, `steps` starts where it ends."""
    global _resumed
    path = contract().resume
    scratch = contract().scratch
    if path is None and scratch is not None and not contract().active:
        path = _newest(scratch / _FOLDER)
    if path is None or not path.exists():
        return None
    try:
        about = json.loads((path.parent / _ABOUT).read_text(encoding="ascii"))
        _resumed = whole(about["next_step"]), whole(about["next_report"])
    except (OSError, ValueError, TypeError, KeyError):
        _resumed = 0, 0  # Not written by this module.
    return path


def resumed_step() -> int:
    """The first step after the checkpoint that the program has asked for; 0 if it has not."""
    return _resumed[0]


def resumed_report() -> int:
    """The step after the last one that was reported before that checkpoint; 0 without."""
    return _resumed[1]


def sync(path: Path) -> None:
    """Has the disk store a file, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            sync(entry)
    _sync_one(path)


def _sync_one(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError:
        # Some file systems cannot sync a folder.
        if not path.is_dir():
            raise
    finally:
        os.close(file)


def _finished(parent: Path) -> List[Path]:
    """The finished checkpoints, the oldest first."""
    found = [path for path in parent.iterdir() if path.name.isascii() and path.name.isdigit()]
    return sorted(found, key=lambda path: int(path.name))


def _newest(parent: Path) -> Optional[Path]:
    if not parent.is_dir():
        return None
    for folder in reversed(_finished(parent)):
        contents = [path for path in folder.iterdir() if path.name != _ABOUT]
        if len(contents) == 1:
            return contents[0]
    return None


def _clear(parent: Path) -> None:
    """Removes what a killed attempt has left half written."""
    for path in parent.iterdir():
        owner = path.name[len(_NEW) :].partition("-")[0]
        if path.name.startswith(_NEW) and owner != str(os.getpid()):
            shutil.rmtree(path, ignore_errors=True)


def _prune(parent: Path) -> None:
    now = time.time()
    for age, folder in enumerate(reversed(_finished(parent))):
        try:
            young = now - folder.stat().st_mtime < YOUNG
        except OSError:
            continue
        if age >= (KEPT_YOUNG if young else KEPT):
            shutil.rmtree(folder, ignore_errors=True)
