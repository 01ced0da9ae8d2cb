"""Runs a script until it reads its parameters, and prints these as JSON. `sweep new` starts it: SECONDS SCRIPT ARGUMENT…

The script can do no harm that Python sees: files that it would write, programs that it would start and connections that it
would make are refused. What it prints is discarded. Python 3.8 and later.
"""

import builtins
import json
import os
import sys

SECONDS, SCRIPT, ARGUMENTS = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
# Longest text that is passed on, in characters, and most parameters.
LONGEST, MOST = 400, 500

sys.dont_write_bytecode = True
answer = os.dup(1)
sink = os.open(os.devnull, os.O_RDWR)
os.dup2(sink, 1)
os.dup2(sink, 2)
found = {"source": "none", "parameters": [], "why": "it has not read any"}


def tell(**answered):
    """Prints the answer and ends the process at once, so that the script does nothing more."""
    data = json.dumps(answered, allow_nan=False).encode()
    while data:
        data = data[os.write(answer, data):]
    os._exit(0)


def text(value):
    """A text without what JSON cannot hold, and not too long."""
    value = str(value)
    if len(value) > LONGEST:
        value = value[: LONGEST - 1] + "…"
    return value.encode("utf-8", "backslashreplace").decode()


class NoJson(Exception):
    """A value that has no form on a command line."""


def plain(value, enum="text", depth=0):
    """A default as JSON has it."""
    import enum as enums
    import math

    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enums.Enum):
        return text({"name": value.name, "value": value.value}.get(enum, value))
    if isinstance(value, str):
        if len(value) > LONGEST:
            raise NoJson()
        return text(value)
    if isinstance(value, int):
        return int(value) if abs(value) < 2**53 else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, os.PathLike):
        return text(os.fspath(value))
    if depth < 8 and isinstance(value, (list, tuple, set, frozenset)) and len(value) <= MOST:
        return [plain(item, enum, depth + 1) for item in value]
    if depth < 8 and callable(getattr(value, "item", None)):
        return plain(value.item(), enum, depth + 1)
    raise NoJson()


def spells_truth(kind):
    """The style of a truth value that an argument of this type has: `python` if the type reads only `True` and `False`."""

    def reads(word, value):
        try:
            return kind(word) is value
        except BaseException:
            return False

    if not callable(kind) or reads("true", True) and reads("false", False):
        return "truth"
    return "python" if reads("True", True) and reads("False", False) else "truth"


def parameter(name, style, default=None, kind=None, choices=None, help=None, required=False, note=None, enum="text", negative=None):
    """One parameter: `style` is flag, pair, truth, python, value, list, position or other."""
    entry = {"name": text(name), "style": style, "required": bool(required)}
    try:
        entry["default"] = plain(default, enum)
    except Exception:
        entry["default"] = None
        note = note or "its default has no form on a command line"
    try:
        entry["choices"] = [plain(choice, enum) for choice in list(choices or [])[:50]]
    except Exception:
        entry["choices"] = []
    for key, value in (("kind", kind), ("help", help), ("note", note), ("negative", negative)):
        if value:
            entry[key] = text(value)
    return entry


def given(name):
    """True if the command line that `sweep new` was given has this option already."""
    return any(argument == "--" + name or argument.startswith("--" + name + "=") for argument in ARGUMENTS)


def report(source, parameters, **more):
    parameters = [entry for entry in parameters if entry and not given(entry["name"])][:MOST]
    tell(source=source, parameters=parameters, **more)


# argparse


def of_action(parser, action, exclusive):
    import argparse as module

    if isinstance(action, (module._HelpAction, module._VersionAction, module._SubParsersAction)) or action.help == module.SUPPRESS:
        return None
    try:
        help = action.help and action.help % dict(vars(action), prog=parser.prog)
    except Exception:
        help = action.help
    default = None if action.default is module.SUPPRESS else action.default
    kind = getattr(action.type, "__name__", None)
    kind = None if kind == "<lambda>" else kind
    more = {"default": default, "kind": kind, "choices": action.choices, "help": help, "required": action.required}
    if not action.option_strings:
        more["required"] = action.nargs not in ("?", "*")
        style = "position" if action.nargs in (None, 1, "?", "*", "+") or isinstance(action.nargs, int) else "other"
        return parameter(action.dest, style, **more)
    names = [name[2:] for name in action.option_strings if name.startswith("--") and len(name) > 2]
    if not names:
        return parameter(action.option_strings[0], "other", note="it has no long form: write it in `argv`", **more)
    name = names[0]
    if action in exclusive and action.nargs != 0:
        return parameter(name, "other", note="it excludes other options", **more)
    if type(action).__name__ == "BooleanOptionalAction":
        more["choices"] = None
        name = next((name for name in names if not name.startswith("no-")), name)
        return parameter(name, "pair", negative="no-" + name, **more)
    if isinstance(action, (module._AppendAction, module._AppendConstAction, module._CountAction)) and type(action).__name__ != "_ExtendAction":
        return parameter(name, "other", note="it is given several times: write it in `argv`", **more)
    if action.nargs == 0:
        # The value is whether the flag is given.
        return parameter(name, "flag", **dict(more, default=False))
    if action.nargs in (None, "?", 1):
        if action.type is bool:
            return parameter(name, "other", note="`type=bool` takes every text but an empty one as true", **more)
        return parameter(name, spells_truth(action.type) if isinstance(default, bool) else "value", **more)
    if isinstance(default, (list, tuple)) or default is None:
        return parameter(name, "list", **more)
    return parameter(name, "other", note="its default is no list", **more)


def of_parser(parser):
    import argparse as module

    arguments = [argument for argument in ARGUMENTS if not argument.startswith("-")]
    while True:
        commands = [action for action in parser._actions if isinstance(action, module._SubParsersAction)]
        if not commands:
            break
        chosen = next((argument for argument in arguments if argument in commands[0].choices), None)
        if chosen is None:
            return report("argparse", [], commands=[text(name) for name in list(commands[0].choices)[:50]])
        arguments = arguments[arguments.index(chosen) + 1:]
        parser = commands[0].choices[chosen]
    exclusive = {action for group in parser._mutually_exclusive_groups for action in group._group_actions}
    report("argparse", [of_action(parser, action, exclusive) for action in parser._actions])


def patch_argparse(module):
    """Reads the parser as soon as it is to parse the command line."""
    known, whole = module.ArgumentParser.parse_known_args, module.ArgumentParser.parse_args
    state = {"whole": False}

    def parse_known_args(self, args=None, namespace=None, **more):
        ours = args is None or list(args) == sys.argv[1:]
        if not patches["on"] or not ours:
            return known(self, args, namespace, **more)
        if not state["whole"] and not self.add_help:
            # A parser before the parser: what it leaves is parsed later.
            return known(self, args, namespace, **more)
        of_parser(self)

    def parse_args(self, args=None, namespace=None):
        state["whole"] = True
        try:
            return whole(self, args, namespace)
        finally:
            state["whole"] = False

    module.ArgumentParser.parse_known_args = parse_known_args
    module.ArgumentParser.parse_args = parse_args


# click, and typer, which is built on it


def of_click(param):
    default = getattr(param, "default", None)
    if type(default).__name__ == "Sentinel" or callable(default):
        default = None
    # The second is newer versions of typer, whose enumerations are given by their values.
    kind = getattr(param, "type", None) or getattr(param, "type_descriptor", None)
    enum = "name" if hasattr(param, "type") else "value"
    choices = getattr(kind, "choices", None)
    more = {"kind": getattr(kind, "name", None), "choices": choices, "help": getattr(param, "help", None), "enum": enum}
    more.update(default=default, required=param.required)
    if not hasattr(param, "is_flag"):
        return parameter(param.name, "position", **more)
    if getattr(param, "hidden", False) or not param.expose_value:
        return None
    names = [name[2:] for name in param.opts if name.startswith("--")]
    if not names:
        return parameter(param.opts[0], "other", note="it has no long form: write it in `argv`", **more)
    name = names[0]
    if param.is_flag:
        negative = [name[2:] for name in param.secondary_opts if name.startswith("--")]
        if negative:
            return parameter(name, "pair", negative=negative[0], **dict(more, default=bool(default)))
        if getattr(param, "is_bool_flag", True) and not default:
            return parameter(name, "flag", **dict(more, default=False))
        return parameter(name, "other", note="it is a switch between values: write it in `argv`", **more)
    if getattr(param, "count", False) or param.multiple:
        return parameter(name, "other", note="it is given several times: write it in `argv`", **more)
    if param.nargs != 1:
        return parameter(name, "list", **more)
    return parameter(name, "truth" if isinstance(default, bool) else "value", **more)


def patch_click(click):
    """Reads the command as soon as it is to parse the command line; `click` is the module `core`."""

    def make_context(self, info_name, args, parent=None, **extra):
        command, arguments = self, [argument for argument in ARGUMENTS if not argument.startswith("-")]
        while hasattr(command, "list_commands"):
            context = click.Context(command)
            names = command.list_commands(context)
            chosen = next((argument for argument in arguments if argument in names), None)
            if chosen is None:
                report("click", [], commands=[text(name) for name in names[:50]])
            arguments = arguments[arguments.index(chosen) + 1:]
            command = command.get_command(context, chosen)
        report("click", [of_click(param) for param in command.params])

    for name in ("BaseCommand", "Command", "MultiCommand", "Group"):
        kind = vars(click).get(name)
        if kind is not None and (name == "Command" or "make_context" in vars(kind)):
            kind.make_context = make_context


# Hydra


def leaves(value, prefix=""):
    """The values of a configuration, by their paths."""
    for key, inner in value.items():
        name = prefix + str(key)
        if isinstance(inner, dict) and inner:
            yield from leaves(inner, name + ".")
        else:
            yield name, inner


def of_hydra(name, value):
    if value == "???":
        return parameter(name, "value", required=True)
    kind = None if value is None else type(value).__name__
    if isinstance(value, str) and "${" in value:
        return parameter(name, "other", kind=kind, note="it follows from other values: " + value)
    if isinstance(value, list):
        scalar = all(isinstance(item, (bool, int, float, str)) for item in value)
        return parameter(name, "list" if scalar else "other", value if scalar else None, kind)
    if isinstance(value, dict):
        return None
    return parameter(name, "truth" if isinstance(value, bool) else "value", value, kind)


def patch_hydra(hydra):
    import functools

    original = hydra.main

    def main(*args, **kwargs):
        decorate = original(*args, **kwargs)

        def decorated(task):
            run = decorate(task)

            @functools.wraps(task)
            def call(config=None):
                import contextlib
                import io

                from omegaconf import OmegaConf

                patches["on"] = False
                sys.argv = [SCRIPT, *ARGUMENTS, "--cfg", "job"]
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
                    run()
                config = OmegaConf.to_container(OmegaConf.create(printed.getvalue()), resolve=False)
                fixed = {argument.lstrip("+").split("=")[0] for argument in ARGUMENTS}
                entries = [of_hydra(name, value) for name, value in leaves(config) if name not in fixed]
                report("hydra", entries)

            return call

        return decorated

    hydra.main = main


# tyro


def of_field(tyro, owner, name, hint, default, missing):
    """One field of a configuration; those of an inner configuration by their paths."""
    import collections.abc
    import dataclasses
    import enum
    import inspect
    import pathlib
    import typing

    note, help, position = None, None, False
    while typing.get_origin(hint) is not None and hasattr(hint, "__metadata__"):
        for mark in hint.__metadata__:
            position = position or "positional" in repr(mark).lower()
            help = getattr(mark, "help", None) or help
            name = name.rpartition(".")[0] + getattr(mark, "name", None) if getattr(mark, "name", None) else name
        hint = typing.get_args(hint)[0]
    leaf = name.rpartition(".")[2]
    with_docs = getattr(getattr(tyro, "_docstrings", None), "get_field_docstring", None)
    for extra in ((), (frozenset(),)):
        try:
            help = help or with_docs(owner, leaf, *extra)
        except Exception:
            pass
    is_union = typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType"
    optional = [kind for kind in typing.get_args(hint) if kind is not type(None)] if is_union else []
    if len(optional) == 1:
        hint = optional[0]
    elif optional:
        note = "it is of several types"
    if dataclasses.is_dataclass(hint):
        yield from of_fields(tyro, hint, None if missing else default, name + ".")
        return
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    kind = getattr(hint, "__name__", None) or str(hint)
    more = {"default": None if missing else default, "required": missing, "help": help, "enum": "name", "note": note}
    if position:
        yield parameter(leaf, "position", kind=kind, **more)
    elif note:
        yield parameter(name, "other", **more)
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
    elif origin in (list, tuple, set, frozenset, collections.abc.Sequence):
        yield parameter(name, "list", kind=str(hint).replace("typing.", ""), **more)
    else:
        yield parameter(name, "other", **dict(more, note="its type has no simple form: " + str(hint)))


def of_fields(tyro, owner, default=None, prefix=""):
    import dataclasses
    import inspect
    import typing

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
            yield from of_field(tyro, owner, prefix + field.name, hints.get(field.name, str), value, missing)
        return
    for name, known in inspect.signature(owner).parameters.items():
        missing = known.default is inspect.Parameter.empty
        hint = hints.get(name, str)
        value = None if missing else known.default
        position = known.kind is inspect.Parameter.POSITIONAL_ONLY
        for entry in of_field(tyro, owner, prefix + name, hint, value, missing):
            yield dict(entry, style="position") if position else entry


def patch_tyro(tyro):
    def cli(f, *, default=None, **more):
        default = None if type(default).__name__.upper().startswith("MISSING") else default
        report("tyro", list(of_fields(tyro, f, default)))

    tyro.cli = cli


# sweep


def patch_sweep(module):
    def params(*_, **defaults):
        kinds = {name: None if value is None else type(value).__name__ for name, value in defaults.items()}
        styles = {name: "list" if isinstance(value, (list, tuple)) else "value" for name, value in defaults.items()}
        report("sweep", [parameter(name, styles[name], value, kinds[name]) for name, value in defaults.items()])

    module.params = params


# A configurator: a file that a script executes, and that gives its global variables the values of `--name=value`


def of_globals(values):
    for name, value in list(values.items()):
        if not name.startswith("_") and type(value) in (bool, int, float, str):
            yield parameter(name, "python" if isinstance(value, bool) else "value", value, type(value).__name__)


def patch_exec():
    """Reads the global variables as soon as the script executes a text that changes them by the command line."""
    original = builtins.exec

    def execute(source, globals=None, locals=None, **more):
        caller = sys._getframe(1)
        is_script = caller.f_code.co_filename == SCRIPT
        if is_script and patches["on"] and isinstance(source, str) and "argv" in source and "globals()" in source:
            report("configurator", list(of_globals(caller.f_globals if globals is None else globals)))
        if globals is None:
            globals, locals = caller.f_globals, caller.f_locals
        return original(source, globals, locals, **more)

    builtins.exec = execute


# Newer versions of typer have a click of their own.
patches = {
    "on": True,
    "click.core": patch_click,
    "typer._click.core": patch_click,
    "hydra": patch_hydra,
    "tyro": patch_tyro,
    "sweep": patch_sweep,
}


def watch_imports():
    """Changes a package as soon as it is imported, before the script has its names."""
    original = builtins.__import__

    def imported(name, *args, **kwargs):
        module = original(name, *args, **kwargs)
        for known in [name for name in patches if name != "on" and name in sys.modules]:
            loaded = sys.modules[known]
            if not getattr(getattr(loaded, "__spec__", None), "_initializing", False):
                patches.pop(known)(loaded)
        return module

    builtins.__import__ = imported


