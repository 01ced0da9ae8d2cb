"""Reports of `sweep` in notebooks, through `sweep report`."""

from __future__ import annotations

import os
import sys
from typing import Optional, Sequence

from ._results import PathLike, ResultsError, as_argument, run_sweep


class Shown:
    """The report of a recipe: verdicts, tables and figures. Jupyter and marimo show it as HTML, `str` as text."""

    def __init__(self, name: str, html: str, command: Sequence[str]) -> None:
        self._name = name
        self._html = html
        self._command = list(command)

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return f"<report of {self._name}>"

    def __str__(self) -> str:
        return run_sweep([*self._command, "--format", "term"])[0]


def show(recipe: PathLike, folder: PathLike = "results", *, scale: Optional[str] = None) -> Shown:
    """The report of a recipe as an object that a notebook shows: verdicts, tables, and figures as SVG, without script.

    The jobs are those that are done in the results folder `folder`, which need not exist yet; nothing is run. `scale`
    chooses a scale of the recipe. Warnings and notes of `sweep` go to standard error. Raises `ResultsError` with the
    words of `sweep`, if there is no `sweep`, or if the recipe has nothing to show.
    """
    command = ["--results", os.fspath(folder), "report", as_argument(recipe)]
    if scale is not None:
        command.append(f"--scale={scale}")
    html, notes = run_sweep([*command, "--format", "html"])
    if not html.strip():
        raise ResultsError(notes)
    if notes:
        print(notes, file=sys.stderr)
    return Shown(os.fspath(recipe), html, command)
