"""The environment variables through which `sweep` talks to a program (version 1)."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Mapping, NamedTuple, Optional

#: The version of the contract that this module speaks.
VERSION = "1"


class Contract(NamedTuple):
    """The variables, read and checked."""

    #: True if `sweep` has started the program.
    active: bool
    #: File with the parameters.
    params: Optional[Path]
    #: File to which reports are appended.
    report: Optional[str]
    #: Folder that outlives attempts.
    scratch: Optional[Path]
    #: Newest checkpoint of an earlier attempt.
    resume: Optional[Path]
    #: Step at which to stop.
    until: Optional[int]
    #: File that appears when the program shall save and end.
    stop: Optional[str]
    #: True if reports shall also be printed to standard error.
    prints: bool


def read(variables: Mapping[str, str]) -> Contract:
    """Reads the variables. Raises `ValueError` for a variable with a value that the contract does not allow."""
    version = variables.get("SWEEP_CONTRACT")
    if version is not None and version != VERSION:
        text = f"`sweep` speaks contract {version}, its Python module {VERSION}: install the module that came with it"
        warnings.warn(text, RuntimeWarning, stacklevel=2)

    def path(name: str) -> Optional[Path]:
        return Path(variables[name]) if variables.get(name) else None

    until_text = variables.get("SWEEP_UNTIL") or None
    if until_text is not None and not (until_text.isascii() and until_text.isdigit() and int(until_text) > 0):
        raise ValueError(f"SWEEP_UNTIL is {until_text!r}; it must be an integer of at least 1")
    return Contract(
        active=version is not None,
        params=path("SWEEP_PARAMS"),
        report=variables.get("SWEEP_REPORT") or None,
        scratch=path("SWEEP_SCRATCH"),
        resume=path("SWEEP_RESUME"),
        until=int(until_text) if until_text is not None else None,
        stop=variables.get("SWEEP_STOP") or None,
        prints=variables.get("SWEEP_PRINT", "") not in ("", "0"),
    )


_contract: Optional[Contract] = None


def contract() -> Contract:
    """The contract of this process, read once."""
    global _contract
    if _contract is None:
        _contract = read(os.environ)
    return _contract


def active() -> bool:
    """True if `sweep` has started this program; False if it runs by hand."""
    return contract().active


def scratch() -> Optional[Path]:
    """The folder that outlives attempts of this job; None by hand."""
    return contract().scratch


def until(default: int) -> int:
    """The step at which to stop: that of the recipe's `until`, or else `default`."""
    asked = contract().until
    return default if asked is None else asked
