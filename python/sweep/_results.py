"""Results of `sweep` as frames of pandas or polars, through `sweep query`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple, Union

PathLike = Union[str, "os.PathLike[str]"]
#: What makes frames, the first that is installed.
_FRAMES = ("pandas", "polars")


class ResultsError(RuntimeError):
    """A query that `sweep` rejects, or a program or package that is not there."""


def results(
    folder: PathLike = "results",
    recipe: Optional[PathLike] = None,
    step: Optional[str] = None,
    *,
    scale: Optional[str] = None,
    where: Union[str, Sequence[str]] = (),
    select: Sequence[str] = (),
    sort: Sequence[str] = (),
    frame: Optional[str] = None,
) -> Any:
    """The results in a folder as a frame with a row for each job: axes, parameters and metrics in their units.

    With a recipe these are the jobs of its points that are done, and the axes are columns; `step` keeps one of its
    steps, and `scale` chooses a scale of the recipe. `where`, `select` and `sort` are those of `sweep query`:
    `where="loss < 2.5"`, `sort=["-loss"]`. `frame` is `"pandas"` or `"polars"`, by default the first that is installed.
    Raises `ResultsError` with the words of `sweep`, or if there is no `sweep` or no package for frames.
    """
    arguments = _arguments(folder, recipe, step, scale, where)
    if select:
        arguments += ["--select", ",".join(select)]
    if sort:
        arguments += [f"--sort={','.join(sort)}"]
    return _query(arguments, frame)


def curves(
    folder: PathLike = "results",
    recipe: Optional[PathLike] = None,
    step: Optional[str] = None,
    *,
    scale: Optional[str] = None,
    series: Union[str, Sequence[str]] = (),
    where: Union[str, Sequence[str]] = (),
    frame: Optional[str] = None,
) -> Any:
    """The curves of the results as a long frame: `job`, `series`, `step`, `value`, and columns that tell jobs apart.

    `step` is the step of the curve; the recipe's step is `recipe_step`. `series` keeps these series. For the rest see
    `results`.
    """
    names = [series] if isinstance(series, str) else list(series)
    arguments = _arguments(folder, recipe, step, scale, where)
    arguments.append("--curves=" + ",".join(names) if names else "--curves")
    names_here = {"label": "job", "step": "recipe_step", "at": "step"}
    found = _query(arguments, frame)
    present = {old: new for old, new in names_here.items() if old in list(found.columns)}
    if type(found).__module__.startswith("polars"):
        return found.rename(present)
    return found.rename(columns=present)


def binary() -> str:
    """The path of `sweep`: `SWEEP_BIN`, beside this Python, where it was installed with this module, or on the PATH."""
    asked = os.environ.get("SWEEP_BIN")
    if asked:
        if not os.access(asked, os.X_OK):
            raise ResultsError(f"SWEEP_BIN is {asked}, which is no program")
        return asked
    name = "sweep.exe" if os.name == "nt" else "sweep"
    package = Path(__file__).resolve().parent
    places = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts")), package / "bin"]
    for place in places:
        if os.access(place / name, os.X_OK):
            return str(place / name)
    found = shutil.which("sweep")
    if found is None:
        raise ResultsError("there is no program `sweep`: install it, or set SWEEP_BIN to its path")
    return found


def _arguments(
    folder: PathLike,
    recipe: Optional[PathLike],
    step: Optional[str],
    scale: Optional[str],
    where: Union[str, Sequence[str]],
) -> List[str]:
    if not Path(folder).is_dir():
        raise ResultsError(f"there are no results in {os.fspath(folder)}: there is no such folder")
    arguments = ["--results", os.fspath(folder), "query"]
    for condition in [where] if isinstance(where, str) else where:
        arguments += [f"--where={condition}"]
    if step is not None:
        if recipe is None:
            raise ResultsError("`step` is a step of a recipe: give `recipe`, too")
        if "'" in step:
            raise ResultsError(f"no step can be called {step!r}")
        arguments += [f"--where=step == '{step}'"]
    if scale is not None:
        if recipe is None:
            raise ResultsError("`scale` is a scale of a recipe: give `recipe`, too")
        arguments.append(f"--scale={scale}")
    if recipe is not None:
        arguments.append(as_argument(recipe))
    return arguments


def as_argument(recipe: PathLike) -> str:
    """The path of a recipe as an argument, which is no option."""
    path = os.fspath(recipe)
    return os.path.join(".", path) if path.startswith("-") else path


def run_sweep(arguments: Sequence[str]) -> Tuple[str, str]:
    """The texts that `sweep` prints to standard output and to standard error. Raises `ResultsError` if it fails."""
    command = [binary(), *arguments]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ResultsError(f"{command[0]} cannot be started: {error}") from error
    notes = ended.stderr.decode("utf-8", "replace").strip()
    if ended.returncode != 0:
        raise ResultsError(notes or f"{command[0]} failed")
    return ended.stdout.decode("utf-8", "replace"), notes


def _query(arguments: List[str], frame: Optional[str]) -> Any:
    package = _package(frame)
    # pandas reads Parquet through another package.
    by_parquet = package == "polars" or _is_there("pyarrow")
    with tempfile.TemporaryDirectory(prefix="sweep-query-") as folder:
        path = os.path.join(folder, "answer")
        run_sweep([*arguments, "--format", "parquet" if by_parquet else "json", "--output", path])
        module = importlib.import_module(package)
        if by_parquet:
            return module.read_parquet(path)
        with open(path, encoding="utf-8") as file:
            return module.DataFrame(json.load(file))


def _package(frame: Optional[str]) -> str:
    if frame is None:
        for name in _FRAMES:
            if _is_there(name):
                return name
        raise ResultsError("neither pandas nor polars is installed; install one of them")
    if frame not in _FRAMES:
        raise ResultsError(f"`frame` is {' or '.join(repr(name) for name in _FRAMES)}, not {frame!r}")
    if not _is_there(frame):
        raise ResultsError(f"{frame} is not installed")
    return frame


def _is_there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
