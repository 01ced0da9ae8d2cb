"""Weights & Biases' functions for `sweep`: a script runs with `import sweep.wandb as wandb`.

What is logged is reported; what the recipe's `params` give overrides `config`. Nothing is sent anywhere. Values that
are no numbers (images, tables, texts) are left out.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import os
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple, Type

from ._checkpoint import resumed_report
from ._contract import contract
from ._params import recipe_params
from ._report import Reporter, reporter, whole

__all__ = [
    "Config",
    "Error",
    "Run",
    "Settings",
    "Summary",
    "UsageError",
    "alert",
    "define_metric",
    "finish",
    "init",
    "log",
    "login",
    "mark_preempting",
    "save",
    "setup",
    "unwatch",
    "watch",
]

#: What takes the place of some functions that are not here.
_INSTEAD = {
    "sweep": "a recipe's `matrix` takes the place of W&B's sweeps",
    "agent": "`sweep run` takes the place of W&B's agents",
    "controller": "`sweep run` takes the place of W&B's agents",
    "Api": "`sweep.results` reads results",
    "Artifact": "`outputs` of the recipe keeps files",
    "log_artifact": "`outputs` of the recipe keeps files",
    "use_artifact": "`inputs` of the recipe gives files",
}


class Error(Exception):
    """Any error of this module."""


class UsageError(Error):
    """A call in the wrong order, such as `log` before `init`."""


class Settings:
    """Settings, all of which are accepted and ignored."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)


class _Values:
    """Reading of values by name, for the configuration and the summary."""

    _values: Dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self._values.get(name, default)

    def keys(self) -> List[str]:
        """The names."""
        return list(self._values)

    def items(self) -> List[Tuple[str, Any]]:
        """Names and values."""
        return list(self._values.items())


class Config(_Values):
    """The configuration: attributes, items, `get`, `update`, `keys`, `items`, `as_dict`.

    The recipe's `params` are locked, as those of a sweep are in W&B: other values for them are ignored with a warning.
    """

    _locked: Set[str]

    def __init__(self, values: Mapping[str, Any], locked: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", {**values, **locked})
        object.__setattr__(self, "_locked", set(locked))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name in self._values:
            return self._values[name]
        raise AttributeError(f"the configuration has no `{name}`{_near(name, self._values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._locked:
            self._values[name] = value
        elif value != self._values[name]:
            kept = self._values[name]
            text = f"`config.{name}` stays {kept!r}, which the recipe's `params` give; {value!r} is ignored"
            reporter().warn(f"config.{name}", text)

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> List[Any]:
        """The values."""
        return list(self._values.values())

    def as_dict(self) -> Dict[str, Any]:
        """All of it as a dictionary."""
        return dict(self._values)

    def update(self, values: Any = None, allow_val_change: Optional[bool] = None, **more: Any) -> None:
        """Sets several values."""
        for name, value in {**_mapping(values), **more}.items():
            self[name] = value

    def setdefaults(self, values: Any) -> None:
        """Sets several values where there are none."""
        for name, value in _mapping(values).items():
            self._values.setdefault(name, value)


class Summary(_Values):
    """The last values, and those that the script sets, which become final metrics."""

    def __init__(self, write: Callable[[Dict[str, Any]], None]) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_write", write)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name in self._values:
            return self._values[name]
        raise AttributeError(f"the summary has no `{name}`{_near(name, self._values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, values: Optional[Mapping[str, Any]] = None, **more: Any) -> None:
        """Sets several values."""
        new = {**(values or {}), **more}
        self._values.update(new)
        self._write(new)


class Run:
    """A run, as `init` answers it."""

    def __init__(
        self, config: Any, name: Optional[str], disabled: bool, facts: Mapping[str, Any], reports: Reporter
    ) -> None:
        self._reports = reports
        self._step = resumed_report()
        self._defined: Dict[str, str] = {}
        self._extremes: Dict[str, Dict[str, float]] = {}
        self.disabled = disabled
        self.config = Config(_mapping(config), recipe_params())
        self.summary = Summary(self._write)
        scratch = contract().scratch
        self.id = facts.get("id") or (scratch.name if scratch is not None else "by-hand")
        self.name = name or self.id
        self.project = facts.get("project")
        self.entity = facts.get("entity")
        self.group = facts.get("group")
        self.job_type = facts.get("job_type")
        self.tags: Tuple[str, ...] = tuple(facts.get("tags") or ())
        self.notes = facts.get("notes")
        self.resumed = contract().resume is not None
        self.starting_step = self._step
        self.dir = os.getcwd()
        self.url: Optional[str] = None
        self.sweep_id: Optional[str] = None
        self.mode = "disabled" if disabled else "offline"
        self.settings = facts.get("settings") or Settings()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.finish()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _missing(name, "a run", [known for known in dir(Run) if not known.startswith("_")])

    @property
    def step(self) -> int:
        """The step of the next call of `log`."""
        return self._step

    def log(
        self,
        data: Mapping[str, Any],
        step: Optional[int] = None,
        commit: Optional[bool] = None,
        sync: Optional[bool] = None,
    ) -> None:
        """Reports values at a step, by default the one after that of the last call."""
        if not isinstance(data, Mapping):
            raise ValueError(f"`log` takes a dictionary, not {type(data).__name__}")
        if step is not None:
            step = whole(step)
            if step < self._step:
                text = f"`log` was called for step {step} after step {self._step}: ignored, as W&B does"
                self._reports.warn("log.step", text)
                return
            self._step = step
        flat = dict(_flat(data, ""))
        self._follow(flat)
        if not self.disabled:
            self._reports.report(self._step, {_safe(name): value for name, value in flat.items()})
        if commit if commit is not None else step is None:
            self._step += 1

    def define_metric(
        self,
        name: str,
        step_metric: Any = None,
        step_sync: Optional[bool] = None,
        hidden: Optional[bool] = None,
        summary: Optional[str] = None,
        goal: Optional[str] = None,
        overwrite: Optional[bool] = None,
    ) -> None:
        """Defines the summary of a metric (`min`, `max`, `mean`, `last`, `none`), which may have a `*` at its end.

        `min`, `max` and `mean` become the metrics `<name>.min` and so on. Another axis than the step is ignored.
        """
        wanted = {part.strip() for part in (summary or "").split(",")} - {""}
        unknown = wanted - {"min", "max", "mean", "last", "best", "copy", "none", "first"}
        if unknown:
            text = "a summary is min, max, mean, last, best, first, copy or none"
            raise Error(f"{text}, not {', '.join(sorted(unknown))}")
        if "best" in wanted:
            wanted = wanted - {"best"} | {"max" if goal == "maximize" else "min"}
        self._defined[name] = ",".join(sorted(wanted & {"min", "max", "mean", "first"}))

    def finish(self, exit_code: Optional[int] = None, quiet: Optional[bool] = None) -> None:
        """Writes what waits."""
        final = {name: value for name, value in self._summaries().items() if math.isfinite(value)}
        if final and not self.disabled:
            self._reports.report(None, {_safe(name): value for name, value in final.items()})
        self._reports.flush()
        _close(self)

    def watch(self, *_: Any, **__: Any) -> None:
        """Does nothing: gradients are not logged."""

    def unwatch(self, *_: Any, **__: Any) -> None:
        """Does nothing."""

    def save(self, *_: Any, **__: Any) -> bool:
        """Does nothing: `outputs` of the recipe keeps files."""
        return True

    def log_code(self, *_: Any, **__: Any) -> None:
        """Does nothing: the record has the Git commit."""

    def mark_preempting(self) -> None:
        """Does nothing."""

    def alert(self, title: str, text: str = "", *_: Any, **__: Any) -> None:
        """Reports a note."""
        if not self.disabled:
            self._reports.report(None, {"note": f"{title}: {text}" if text else title})

    def get_url(self) -> Optional[str]:
        """None: there is no page."""
        return None

    def _write(self, values: Dict[str, Any]) -> None:
        if not self.disabled:
            flat = dict(_flat(values, ""))
            self._reports.report(None, {_safe(name): value for name, value in flat.items()})

    def _follow(self, flat: Mapping[str, Any]) -> None:
        """Keeps what `summary` shows and `define_metric` asks for."""
        for name, value in flat.items():
            self.summary._values[name] = value
            if not any(wanted and fnmatch.fnmatchcase(name, pattern) for pattern, wanted in self._defined.items()):
                continue
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if math.isnan(number):
                continue
            begun = {"min": number, "max": number, "sum": 0.0, "n": 0.0, "first": number}
            seen = self._extremes.setdefault(name, begun)
            seen["min"], seen["max"] = min(seen["min"], number), max(seen["max"], number)
            seen["sum"], seen["n"] = seen["sum"] + number, seen["n"] + 1
            self.summary._values.update(self._summary(name))

    def _summary(self, name: str) -> Dict[str, float]:
        found: Dict[str, float] = {}
        seen = self._extremes[name]
        for pattern, wanted in self._defined.items():
            if fnmatch.fnmatchcase(name, pattern):
                for kind in filter(None, wanted.split(",")):
                    found[f"{name}.{kind}"] = seen["sum"] / seen["n"] if kind == "mean" else seen[kind]
        return found

    def _summaries(self) -> Dict[str, float]:
        return {full: value for name in self._extremes for full, value in self._summary(name).items()}


_run: Optional[Run] = None


def init(
    project: Optional[str] = None,
    entity: Optional[str] = None,
    config: Any = None,
    name: Optional[str] = None,
    mode: Optional[str] = None,
    reinit: Any = None,
    **facts: Any,
) -> Run:
    """Begins a run. `config` has defaults; the recipe's `params` override them. `mode="disabled"` reports nothing.

    All other arguments of W&B are accepted; `project`, `entity`, `group`, `job_type`, `tags`, `notes` and `id` are kept
    as attributes.
    """
    global _run
    if _run is not None:
        if not reinit:
            _run.config.setdefaults(_mapping(config))
            return _run
        _run.finish()
    disabled = (mode or os.environ.get("WANDB_MODE")) == "disabled"
    _run = Run(config, name, disabled, {"project": project, "entity": entity, **facts}, reporter())
    return _run


def log(
    data: Mapping[str, Any], step: Optional[int] = None, commit: Optional[bool] = None, sync: Optional[bool] = None
) -> None:
    """Reports values; see `Run.log`."""
    _current("log").log(data, step, commit, sync)


def define_metric(name: str, step_metric: Any = None, **arguments: Any) -> None:
    """Defines the summary of a metric; see `Run.define_metric`."""
    _current("define_metric").define_metric(name, step_metric, **arguments)


def finish(exit_code: Optional[int] = None, quiet: Optional[bool] = None) -> None:
    """Ends the run, if there is one."""
    if _run is not None:
        _run.finish(exit_code)


def watch(*_: Any, **__: Any) -> None:
    """Does nothing: gradients are not logged."""


def unwatch(*_: Any, **__: Any) -> None:
    """Does nothing."""


def save(*_: Any, **__: Any) -> bool:
    """Does nothing: `outputs` of the recipe keeps files."""
    return True


def alert(title: str, text: str = "", *_: Any, **__: Any) -> None:
    """Reports a note."""
    _current("alert").alert(title, text)


def login(*_: Any, **__: Any) -> bool:
    """Does nothing: nothing is sent."""
    return True


def setup(*_: Any, **__: Any) -> None:
    """Does nothing."""


def mark_preempting() -> None:
    """Does nothing."""


def __getattr__(name: str) -> Any:
    if name == "run":
        return _run
    if name in ("config", "summary"):
        return getattr(_current(name), name)
    if name.startswith("__"):
        raise AttributeError(name)
    raise _missing(name, "`sweep.wandb`", sorted([*__all__, "config", "run", "summary"]))


def _current(function: str) -> Run:
    if _run is None:
        raise UsageError(f"`wandb.init()` comes before `wandb.{function}`")
    return _run


def _close(run: Run) -> None:
    global _run
    if _run is run:
        _run = None


def _missing(name: str, what: str, known: List[str]) -> AttributeError:
    instead = _INSTEAD.get(name)
    text = f"{what} has no `{name}`" + (f": {instead}" if instead else "")
    return AttributeError(f"{text}. Of W&B there are {', '.join(known)}")


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _mapping(values: Any) -> Dict[str, Any]:
    """A dictionary of what W&B accepts as a configuration: mappings, and objects such as those of argparse."""
    if values is None:
        return {}
    if isinstance(values, (Mapping, Config)):
        return {name: values[name] for name in values}
    return dict(vars(values))


def _flat(values: Mapping[str, Any], within: str) -> Iterator[Tuple[str, Any]]:
    """Nested values under names with dots; a value with a unit stays one."""
    for name, value in values.items():
        full = f"{within}{name}"
        if isinstance(value, Mapping) and not set(value) <= {"value", "unit"}:
            yield from _flat(value, full + ".")
        else:
            yield full, value


_RESERVED = {"step", "total", "checkpoint", "note", "rank", "stopped"}


def _safe(name: str) -> str:
    """A name that means nothing to `sweep`."""
    return f"{name}_" if name in _RESERVED else name

