"""Parameters of the recipe, with the script's defaults."""

from __future__ import annotations

import difflib
import json
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from ._contract import contract


class UnknownParameter(AttributeError, KeyError):
    """A parameter that neither the recipe nor the script's defaults have, or that only the recipe has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.message = (
            f"neither the recipe's `params` nor the defaults of `sweep.params` have `{name}`; "
            f"{_suggestion(name, known)}"
        )
        super().__init__(self.message)

    @classmethod
    def of_recipe(cls, names: List[str], known: Iterable[str]) -> UnknownParameter:
        """Names of the recipe's `params` that the defaults do not have."""
        shown = ", ".join(f"`{name}`" for name in names[:3]) + (" and others" if len(names) > 3 else "")
        return _restore_error(
            f"the recipe's `params` have {shown}, the defaults of `sweep.params` do not; "
            f"{_suggestion(names[0], known)}; `sweep.params(..., NAME=DEFAULT)` takes other names, too"
        )

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_restore_error, (self.message,))


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return "did you mean " + " or ".join(f"`{other}`" for other in near) + "?"
    if not names:
        return "there are no parameters"
    shown = ", ".join(f"`{other}`" for other in names[:8])
    return f"there are {shown}" + (" and others" if len(names) > 8 else "")


def _restore_error(message: str) -> UnknownParameter:
    error = UnknownParameter("", ())
    error.message = message
    error.args = (message,)
    return error


class Params(Dict[str, Any]):
    """Parameters as attributes and as items; a dictionary in everything else.

    `p.lr`, `p["lr"]`, `p.get("lr", 0.1)`, `vars(p)`, `**p`, `json.dumps(p)` and assignment work. A mapping inside is a
    `Params`, too: `p.opt.lr`. A parameter with the name of a method of dictionaries (`items`, `keys`, …) is found as an
    item only.
    """

    __slots__ = ()

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__((name, _nested(value)) for name, value in values.items())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise UnknownParameter(name, self)
        del self[name]

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _nested(value))

    def __missing__(self, name: str) -> Any:
        raise UnknownParameter(str(name), self)

    @property
    def __dict__(self) -> Dict[str, Any]:  # type: ignore[override]
        return dict(self)

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self})

    def __repr__(self) -> str:
        return f"Params({dict.__repr__(self)})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Params, (dict(self),))

    def copy(self) -> Params:
        return Params(self)


def _nested(value: Any) -> Any:
    return Params(value) if type(value) is dict else value


def params(*others: Any, **defaults: Any) -> Params:
    """The parameters of the job: the recipe's `params`, and `defaults` for those that it does not give.

    A name that the recipe has and the defaults do not is an `UnknownParameter`, because its value would have no effect.
    `sweep.params()` without defaults takes all names, and `sweep.params(..., lr=0.1)` takes names beside the defaults:
    for scripts that read their parameters in several places. Mappings are merged, and one with names takes no other
    names. A default says the kind of a value: a number that the recipe gives as text is a `TypeError`, and an integer
    for a default that is a float becomes a float. By hand, the answer is the defaults: `sys.argv` is not read.
    """
    if others not in ((), (...,)):
        raise TypeError("`sweep.params` takes defaults by their names, and `...` before them for other names")
    given = recipe_params()
    if defaults and not others:
        unknown = _unknown(defaults, given, "")
        if unknown:
            raise UnknownParameter.of_recipe(unknown, _names(defaults, ""))
    return Params(_merge(defaults, given, ""))


def _unknown(defaults: Mapping[str, Any], given: Mapping[str, Any], within: str) -> List[str]:
    """The names that are given and have no default. A default without names in it takes all."""
    unknown: List[str] = []
    for name, value in given.items():
        if name not in defaults:
            unknown.append(within + name)
        elif isinstance(defaults[name], Mapping) and defaults[name] and isinstance(value, Mapping):
            unknown.extend(_unknown(defaults[name], value, within + name + "."))
    return unknown


def _names(defaults: Mapping[str, Any], within: str) -> Iterable[str]:
    """The names of defaults, with those inside of them."""
    for name, value in defaults.items():
        yield within + name
        if isinstance(value, Mapping):
            yield from _names(value, within + name + ".")


def recipe_params() -> Dict[str, Any]:
    """The recipe's `params`; empty by hand."""
    path = contract().params
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict):
        raise ValueError(f"{path} must contain a JSON object")
    return found


def _merge(defaults: Mapping[str, Any], given: Mapping[str, Any], within: str) -> Dict[str, Any]:
    merged = dict(defaults)
    for name, value in given.items():
        merged[name] = _fit(defaults[name], value, within + name) if name in defaults else value
    return merged


def _fit(default: Any, value: Any, name: str) -> Any:
    """A value of the recipe as the kind of the default."""
    if value is None or default is None:
        return value
    if isinstance(default, Mapping) and isinstance(value, Mapping):
        return _merge(default, value, name + ".")
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if type(default) is float and type(value) is int:
        return float(value)
    if isinstance(default, bool):
        wanted = None if isinstance(value, bool) else "true or false"
    else:
        wanted = "a number" if isinstance(default, (int, float)) and isinstance(value, str) else None
    if wanted is not None:
        text = f"the recipe's `params` give `{name}` the value {value!r}; the default {default!r} asks for {wanted}"
        raise TypeError(text)
    return value
