# Continues `probe.py`: the fields of a class and the arguments of a function, whose names are paths.


class Rules:
    """How a package names and takes fields: `boolean` is the style of truth values, `enum` what stands for members of enumerations."""

    def __init__(self, boolean="truth", enum="name", join=True, short=False, docs=None, kebab=False):
        self.boolean, self.enum, self.join, self.short, self.docs, self.kebab = boolean, enum, join, short, docs, kebab


def rules_of_pydantic(config):
    """The rules that the configuration of a class of pydantic's settings sets; `None` for a class that is none of settings."""
    config = {"cli_implicit_flags": True, "cli_kebab_case": True} if config is None else config
    boolean = "implicit" if config.get("cli_implicit_flags") is True else "truth"
    return Rules(boolean, enum="value", short=True, kebab=config.get("cli_kebab_case") is True)


def of_field(rules, owner, name, hint, default, missing):
    """One field of a configuration; those of an inner configuration by their paths."""
    import collections.abc
    import dataclasses
    import enum
    import inspect
    import pathlib
    import typing

    note, help, position = None, None, False
    name = name.replace("_", "-") if rules.kebab else name
    while typing.get_origin(hint) is not None and hasattr(hint, "__metadata__"):
        for mark in hint.__metadata__:
            position = position or "positional" in repr(mark).lower()
            help = getattr(mark, "help", None) or help
            name = name.rpartition(".")[0] + getattr(mark, "name", None) if getattr(mark, "name", None) else name
        hint = typing.get_args(hint)[0]
    leaf = name.rpartition(".")[2]
    try:
        help = help or (rules.docs and rules.docs(owner, leaf))
    except Exception:
        pass
    is_union = typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType"
    optional = [kind for kind in typing.get_args(hint) if kind is not type(None)] if is_union else []
    if len(optional) == 1:
        hint = optional[0]
    elif optional:
        note = "it is of several types"
    if dataclasses.is_dataclass(hint) or hasattr(hint, "model_fields"):
        yield from of_fields(rules, hint, None if missing else default, name + "." if rules.join else "")
        return
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    kind = getattr(hint, "__name__", None) or str(hint)
    more = {"default": None if missing else default, "required": missing, "help": help, "enum": rules.enum, "note": note}
    if position:
        yield parameter(leaf, "position", kind=kind, **more)
    elif rules.short and len(name) == 1:
        yield parameter(name, "short", kind=kind, option="-" + name, **more)
    elif note:
        yield parameter(name, "other", **more)
    elif hint is bool and rules.boolean == "truth":
        yield parameter(name, "truth", kind=kind, **more)
    elif hint is bool and rules.boolean == "implicit":
        yield parameter(name, "pair", kind=kind, negative="no-" + name, **more)
    elif hint is bool and not missing and default is not None:
        yield parameter(name, "pair", kind=kind, negative=name[: -len(leaf)] + "no-" + leaf, **more)
    elif hint is bool:
        yield parameter(name, "value", kind=kind, choices=["True", "False"], **more)
    elif origin is typing.Literal:
        yield parameter(name, "value", choices=arguments, **more)
    elif inspect.isclass(hint) and issubclass(hint, enum.Enum):
        yield parameter(name, "value", choices=list(hint), **more)
    elif hint in (int, float, str) or inspect.isclass(hint) and issubclass(hint, pathlib.PurePath):
        yield parameter(name, "value", kind=kind, **more)
    elif origin in (list, tuple, set, frozenset, collections.abc.Sequence) or hint in (list, tuple):
        yield parameter(name, "list", kind=str(hint).replace("typing.", ""), **more)
    else:
        yield parameter(name, "other", **dict(more, note="its type has no simple form: " + str(hint)))


def bounds_of(marks):
    """The least and the most value that marks of a field allow."""
    found = {}
    for mark in marks:
        for key, names in (("least", ("ge", "gt")), ("most", ("le", "lt"))):
            value = next((getattr(mark, name) for name in names if isinstance(getattr(mark, name, None), (int, float))), None)
            if value is not None:
                found[key] = float(value)
    return found


def commands_of_union(hint):
    """The commands of tyro: the classes of a union, by their names."""
    import dataclasses
    import re
    import typing

    kinds = typing.get_args(hint) if typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType" else ()
    if len(kinds) < 2 or not all(isinstance(kind, type) and dataclasses.is_dataclass(kind) for kind in kinds):
        return {}
    words = lambda name: re.sub("((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))", r"-\1", name).lower().replace("_", "-")
    return {words(kind.__name__): kind for kind in kinds}


def of_fields(rules, owner, default=None, prefix=""):
    import dataclasses
    import inspect
    import typing

    if hasattr(owner, "model_fields"):
        for name, field in owner.model_fields.items():
            missing = field.is_required() and default is None
            value = getattr(default, name) if default is not None else None if missing else field.get_default(call_default_factory=True)
            alias = field.validation_alias if isinstance(field.validation_alias, str) else name
            bounds = bounds_of(field.metadata)
            yield from (dict(one, **bounds) for one in of_field(rules, owner, prefix + alias, field.annotation, value, missing))
        return
    try:
        hints = typing.get_type_hints(owner, include_extras=True)
    except TypeError:
        hints = typing.get_type_hints(owner)
    if dataclasses.is_dataclass(owner):
        for field in dataclasses.fields(owner):
            if not field.init:
                continue
            value, missing = field.default, False
            if default is not None:
                value = getattr(default, field.name)
            elif value is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            elif value is dataclasses.MISSING:
                value, missing = None, True
            hint = hints.get(field.name, str)
            bounds = bounds_of([field.metadata.get("bounds"), *(getattr(mark, "metadata", {}).get("bounds") for mark in getattr(hint, "__metadata__", ()) if hasattr(mark, "default_factory"))])
            for entry in of_field(rules, owner, prefix + field.metadata.get("alias", field.name), hint, value, missing):
                yield dict(entry, **bounds)
        return
    for name, known in inspect.signature(owner).parameters.items():
        if known.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        missing = known.default is inspect.Parameter.empty
        hint = hints.get(name, str)
        value = None if missing else known.default
        position = known.kind is inspect.Parameter.POSITIONAL_ONLY
        for entry in of_field(rules, owner, prefix + name, hint, value, missing):
            yield dict(entry, style="position") if position else entry
