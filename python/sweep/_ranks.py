"""The number of this process among those that train together."""

from __future__ import annotations

import os
import sys
from typing import Any, Optional

_RANK = ("SWEEP_RANK", "RANK", "OMPI_COMM_WORLD_RANK")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
_known: Optional[int] = None
_looked = False


def rank() -> int:
    """The rank of this process, 0 if it is the only one.

    Known from `SWEEP_RANK` or `RANK` (torchrun), or from `torch.distributed` once that is initialized.
    """
    global _known, _looked
    if not _looked:
        _looked, _known = True, _variable(_RANK)
    if _known is None:
        distributed = _distributed()
        if distributed is None:
            return 0
        _known = int(distributed.get_rank())
    return _known


def world_size() -> int:
    """The number of processes that train together."""
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_world_size())
    return _variable(_WORLD) or 1


def _variable(names: tuple[str, ...]) -> Optional[int]:
    for name in names:
        text = os.environ.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def _distributed() -> Optional[Any]:
    """`torch.distributed`, if the program has imported and initialized it."""
    module = sys.modules.get("torch.distributed")
    try:
        ready = module is not None and module.is_available() and module.is_initialized()
    except AttributeError:  # It is being imported.
        return None
    return module if ready else None


def forget() -> None:
    """Forgets the rank: a forked process may get one of its own."""
    global _known, _looked
    _known, _looked = None, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
