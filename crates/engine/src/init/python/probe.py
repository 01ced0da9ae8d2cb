"""Finds the parameters of a script, and prints them as JSON: SECONDS SCRIPT ARGUMENT….

This file says how a parameter is described. With `tree.py`, `models.py` and `read.py` it reads the script's syntax tree; with
`patches.py` and `guard.py` it runs the script until it reads its parameters. Python 3.8 and later.
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
# What is called with the answer instead.
tellers = []


def tell(**answered):
    """Prints the answer and ends the process at once, so that the script does nothing more."""
    for told in tellers:
        told(answered)
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


def parameter(name, style, default=None, kind=None, choices=None, help=None, required=False, note=None, enum="text", negative=None,
              option=None, least=None, most=None):
    """One parameter: `style` is flag, pair, truth, python, value, list, position, short or other. `option` is `-x` of a short one;
    `least` and `most` bound a number."""
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
    for key, value in (("least", least), ("most", most)):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53:
            entry[key] = float(value)
    for key, value in (("kind", kind), ("help", help), ("note", note), ("negative", negative), ("option", option)):
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


def spelled(kind, member, choices=None):
    """The text that an argument of this type reads as a member of an enumeration."""
    if isinstance(choices, (list, tuple)) and member.value in choices:
        return member.value
    for word in (member.value, member.name, str(member.value), str(member)):
        try:
            if isinstance(word, str) and (word == member if kind is None else kind(word)) in (True, member):
                return str.__str__(word)
        except Exception:
            pass
    return text(member)


def with_spellings(entry, words):
    """An entry with the other names of its parameter."""
    names = {text(word).lstrip("-") for word in words if isinstance(word, str)} if entry else set()
    return dict(entry, spellings=sorted(names - {entry["name"], ""})) if len(names) > 1 else entry


def of_action(parser, action, exclusive):
    # `--no-cuda` sets the opposite of `cuda`.
    destination = [] if action.nargs == 0 else [action.dest]
    words = [*action.option_strings, *destination] if action.option_strings else []
    return with_spellings(form_of_action(parser, action, exclusive), words)


def form_of_action(parser, action, exclusive):
    import argparse as module
    import enum

    if isinstance(action, (module._HelpAction, module._VersionAction, module._SubParsersAction)) or action.help == module.SUPPRESS:
        return None
    try:
        help = action.help and action.help % dict(vars(action), prog=parser.prog)
    except Exception:
        help = action.help
    default = None if action.default is module.SUPPRESS else action.default
    kind = getattr(action.type, "__name__", None)
    kind = None if kind == "<lambda>" else kind
    choices = action.choices
    if choices is None and isinstance(action.type, enum.EnumMeta):
        choices = list(action.type)
    if any(isinstance(choice, enum.Enum) for choice in ([] if isinstance(choices, range) else choices or [])):
        choices = [spelled(action.type, choice) if isinstance(choice, enum.Enum) else choice for choice in choices]
    default = spelled(action.type, default, action.choices) if isinstance(default, enum.Enum) else default
    more = {"default": default, "kind": kind, "choices": choices, "help": help, "required": action.required}
    if not action.option_strings:
        more["required"] = action.nargs not in ("?", "*", "...")
        style = "position" if action.nargs in (None, 1, "?", "*", "+") or isinstance(action.nargs, int) else "other"
        return parameter(action.dest, style, **more)
    more["note"] = getattr(action, "note", None)
    names = [name[2:] for name in action.option_strings if name.startswith("--") and len(name) > 2]
    if not names:
        short = action.option_strings[0]
        if type(action).__name__ == "_StoreAction" and action.nargs in (None, 1) and action.type is not bool:
            return parameter(short.lstrip("-") or short, "short", option=short, **more)
        return parameter(short, "other", **dict(more, note="it has no long form: write it in `argv`"))
    name = names[0]
    if action in exclusive and action.nargs != 0:
        return parameter(name, "other", **dict(more, note="it excludes other options"))
    if type(action).__module__.startswith("simple_parsing") and isinstance(default, bool):
        return parameter(name, "truth", **dict(more, choices=None))
    if type(action).__name__ == "BooleanOptionalAction":
        more["choices"] = None
        name = next((name for name in names if not name.startswith("no-")), name)
        return parameter(name, "pair", negative="no-" + name, **more)
    if isinstance(action, (module._AppendAction, module._AppendConstAction, module._CountAction)) and type(action).__name__ != "_ExtendAction":
        if type(action).__name__ == "_AppendAction" and action.nargs in (None, 1):
            return parameter(name, "repeat", **more)
        return parameter(name, "other", **dict(more, note="it is given several times: write it in `argv`"))
    if action.nargs == 0:
        if default is not None and default == getattr(action, "const", None):
            return of_set_flag(parser, action, name, more)
        # The value is whether the flag is given.
        return parameter(name, "flag", **dict(more, default=False))
    if action.nargs in (None, "?", 1):
        if action.type is bool:
            return parameter(name, "other", **dict(more, note="`type=bool` takes every text but an empty one as true"))
        return parameter(name, spells_truth(action.type) if isinstance(default, bool) else "value", **more)
    if isinstance(default, (list, tuple)) or default is None:
        return parameter(name, "list", **more)
    return parameter(name, "other", **dict(more, note="its default is no list"))


def of_set_flag(parser, action, name, more):
    """A flag whose value is the default: only a flag that sets another value makes a difference."""
    others = [other for other in parser._actions if other.dest == action.dest and other.nargs == 0 and other.const != action.const]
    negative = next((word[2:] for other in others for word in other.option_strings if word.startswith("--")), None)
    if negative and action.const is True:
        return parameter(name, "pair", negative=negative, **dict(more, default=True))
    return parameter(name, "other", **dict(more, note="its default is the value that the flag sets, so it changes nothing"))


def of_parser(parser, source="argparse"):
    import argparse as module

    arguments = [argument for argument in ARGUMENTS if not argument.startswith("-")]
    while True:
        commands = [action for action in parser._actions if isinstance(action, module._SubParsersAction)]
        if not commands:
            break
        chosen = next((argument for argument in arguments if argument in commands[0].choices), None)
        if chosen is None:
            return report(source, [], commands=[text(name) for name in list(commands[0].choices)[:50]])
        arguments = arguments[arguments.index(chosen) + 1:]
        parser = commands[0].choices[chosen]
    exclusive = {action for group in parser._mutually_exclusive_groups for action in group._group_actions}
    report(source, [of_action(parser, action, exclusive) for action in parser._actions])


# optparse and docopt


def of_optparse(parser):
    """The options of a parser of `optparse`."""
    entries = []
    for option in [option for group in [parser, *parser.option_groups] for option in group.option_list]:
        if option.action in ("help", "version") or option.dest is None or option.help == "SUPPRESSHELP":
            continue
        default = parser.defaults.get(option.dest)
        more = {"help": option.help, "choices": option.choices, "kind": option.type}
        more.update(note=getattr(option, "note", None), default=default if type(default).__name__ != "tuple" or default else None)
        names = [name[2:] for name in option._long_opts]
        if option.action in ("store_true", "store_false", "store_const") and names:
            entries.append(parameter(names[0], "flag", **dict(more, default=False)))
        elif option.action != "store" or option.nargs != 1:
            name = names[0] if names else option._short_opts[0]
            entries.append(parameter(name, "other", **dict(more, note="it takes no single value: write it in `argv`")))
        elif names:
            entries.append(parameter(names[0], "value", **more))
        else:
            entries.append(parameter(option._short_opts[0][1:], "short", option=option._short_opts[0], **more))
    report("optparse", entries)


def number(value):
    """The number that a text spells, else the text."""
    try:
        found = int(value) if value.lstrip("-").isdigit() else float(value)
        return found if str(plain(found)) == value or isinstance(found, float) and found - found == 0 else value
    except (AttributeError, ValueError):
        return value


def about_of(words):
    """A description without its default."""
    import re

    return " ".join(re.sub(r"(?i)\[default: .*?\]", "", words).split()).replace(" .", ".")


def usages(doc):
    """The lines of the usage in a description for `docopt`, each without the program: those that show help or the version are no use."""
    import re

    usage = re.search(r"(?is)usage:(.*?)(?:\n\s*\n|$)", doc)
    usage = usage.group(1) if usage else ""
    program, lines = usage.split()[0] if usage.split() else "", []
    for line in filter(None, map(str.strip, usage.splitlines())):
        if line.split()[0] == program:
            lines.append(line[len(program):])
        elif lines:
            lines[-1] += " " + line
    return usage, [line for line in lines if not re.fullmatch(r"\s*\(?(-h|--help|--version|[|\s])+\)?\s*", line)] or [""]


def of_docopt(doc):
    """The options that a description for `docopt` lists, and the arguments of its usage."""
    import re

    found = {}
    usage, lines = usages(doc)
    for line in re.findall(r"(?m)^[ \t]*(-\S.*(?:\n(?![ \t]*-|[ \t]*$|\S).*)*)", doc.replace(usage, "\n")):
        options, _, about = line.partition("  ")
        words = options.replace(",", " ").replace("=", " ").split()
        long = next((word[2:] for word in words if word.startswith("--")), None)
        short = next((word for word in words if not word.startswith("--") and word.startswith("-")), None)
        default = re.search(r"(?i)\[default: (.*?)\]", about)
        takes = any(not word.startswith("-") for word in words)
        found[long or short] = (short, takes, number(default.group(1)) if default else None, about_of(about))
    for long, takes in re.findall(r"--([A-Za-z][\w-]*)(=\S+)?", usage):
        found.setdefault(long, (None, bool(takes), None, None))
    commands = {line.split()[0]: line for line in reversed(lines) if line.split() and re.fullmatch(r"[a-z][\w-]*", line.split()[0])}
    chosen = next((argument for argument in ARGUMENTS if argument in commands), None)
    if commands and chosen is None:
        report("docopt", [], commands=[text(name) for name in reversed(list(commands))])
    words = commands[chosen] if commands else lines[0]
    # What is not in brackets must be given.
    needed, inner = words, None
    while inner != needed:
        inner, needed = needed, re.sub(r"\[[^][]*\]|\([^()]*\|[^()]*\)", " ", needed)
    has_all = "[options]" in words or "[option" in words
    named = set(re.findall(r"--?([A-Za-z][\w-]*)", words)) | {letter for letters in re.findall(r"(?<![\w-])-(\w+)", words) for letter in letters}
    entries = []
    for name, (short, takes, default, help) in found.items():
        is_meant = has_all or name.lstrip("-") in named or short is not None and short.lstrip("-") in named
        if name in ("help", "version", "-h") or not is_meant:
            continue
        required = default is None and re.search(r"(?<![\w-])(--%s|%s)(?![\w-])" % (re.escape(name), re.escape(short or "--" + name)), needed) is not None
        more = {"default": default, "help": help, "required": required and takes}
        if not takes:
            entries.append(parameter(name.lstrip("-"), "other" if name == short else "flag", default=False, help=help))
        elif name == short:
            entries.append(parameter(name.lstrip("-"), "short", option=short, **more))
        else:
            entries.append(parameter(name, "value", **more))
    # Arguments of options are no positions.
    words = re.sub(r"-{1,2}[\w-]+[= ](<[^>]+>|[A-Z]+\b)", "", words)
    positions = re.findall(r"<[^>]+>|\b[A-Z]{2}[A-Z_0-9]*\b|(?<= )[A-Z](?= |$)", words)
    entries += [parameter(name.strip("<>"), "position", required=re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), needed) is not None) for name in dict.fromkeys(positions)]
    report("docopt", [entry for entry in entries if not set(ARGUMENTS) - {chosen} or entry["style"] != "position"])


# click, and typer, which is built on it


def of_click(param):
    words = [*param.opts, param.name] if getattr(param, "opts", None) else []
    return with_spellings(form_of_click(param), words)


def form_of_click(param):
    default = getattr(param, "default", None)
    if type(default).__name__ == "Sentinel" or callable(default):
        default = None
    # The second is newer versions of typer, whose enumerations are given by their values.
    kind = getattr(param, "type", None) or getattr(param, "type_descriptor", None)
    enum = "name" if hasattr(param, "type") else "value"
    choices = getattr(kind, "choices", None)
    more = {"kind": getattr(kind, "name", None), "choices": choices, "help": getattr(param, "help", None), "enum": enum}
    more.update(default=default, required=param.required)
    for key, name in (("least", "min"), ("most", "max")):
        more[key] = getattr(kind, name, getattr(param, name, None))
    if not hasattr(param, "is_flag"):
        return parameter(param.name, "position", **more)
    if getattr(param, "hidden", False) or not param.expose_value:
        return None
    names = [name[2:] for name in param.opts if name.startswith("--")]
    if not names:
        single = param.nargs == 1 and not (param.is_flag or getattr(param, "count", False) or param.multiple)
        if single and param.opts[0].startswith("-"):
            return parameter(param.opts[0].lstrip("-"), "short", option=param.opts[0], **more)
        return parameter(param.opts[0], "other", note="it has no long form: write it in `argv`", **more)
    name = names[0]
    if param.is_flag:
        negative = [name[2:] for name in param.secondary_opts if name.startswith("--")]
        if negative:
            return parameter(name, "pair", negative=negative[0], **dict(more, default=bool(default)))
        if getattr(param, "is_bool_flag", True) and not default:
            return parameter(name, "flag", **dict(more, default=False))
        return parameter(name, "other", note="it is a switch between values: write it in `argv`", **more)
    if param.multiple and param.nargs == 1:
        return parameter(name, "repeat", **more)
    if getattr(param, "count", False) or param.multiple:
        return parameter(name, "other", note="it is given several times: write it in `argv`", **more)
    if param.nargs != 1:
        return parameter(name, "list", **more)
    return parameter(name, "truth" if isinstance(default, bool) else "value", **more)


# Hydra, OmegaConf and ml_collections


def leaves(value, prefix=""):
    """The values of a configuration, by their paths."""
    for key, inner in value.items():
        name = prefix + str(key)
        if isinstance(inner, dict) and inner:
            yield from leaves(inner, name + ".")
        else:
            yield name, inner


def of_hydra(name, value):
    """A value of a configuration."""
    if value == "???":
        return parameter(name, "value", required=True)
    import enum

    if isinstance(value, enum.Enum):
        return parameter(name, "value", value, type(value).__name__, choices=list(type(value)), enum="name")
    kind = None if value is None else type(value).__name__
    if isinstance(value, str) and "${" in value:
        return parameter(name, "other", kind=kind, note="it follows from other values: " + value)
    if isinstance(value, list):
        scalar = all(isinstance(item, (bool, int, float, str)) for item in value)
        return parameter(name, "list" if scalar else "other", value if scalar else None, kind)
    if isinstance(value, dict):
        return None
    return parameter(name, "truth" if isinstance(value, bool) else "value", value, kind)


# sweep


def of_sweep(defaults):
    kinds = {name: None if value is None else type(value).__name__ for name, value in defaults.items()}
    styles = {name: "list" if isinstance(value, (list, tuple)) else "value" for name, value in defaults.items()}
    report("sweep", [parameter(name, styles[name], value, kinds[name]) for name, value in defaults.items()])


# A configurator: a file that a script executes, and that gives its global variables the values of `--name=value`


def of_globals(values):
    for name, value in list(values.items()):
        kind = getattr(value, "kind", None) if type(value).__name__ == "Unknown" else None
        if kind is not None and not name.startswith("_"):
            # One of two values of this type.
            yield parameter(name, "python" if kind is bool else "value", None, kind.__name__, note="its default is computed by the script")
        if not name.startswith("_") and type(value) in (bool, int, float, str):
            yield parameter(name, "python" if isinstance(value, bool) else "value", value, type(value).__name__)


# Fire, absl and ml_collections


def of_signature(source, arguments, **more):
    """The arguments of a function, as Fire reads them: names, whether they are required, and defaults."""
    entries = []
    for name, required, default in arguments:
        kind = None if default is None else type(default).__name__
        style = "python" if isinstance(default, bool) else "list" if isinstance(default, (list, tuple)) else "value"
        entries.append(parameter(name, style, None if required else default, kind, required=required))
    report(source, entries, **more)


def of_absl(name, kind, default, choices=None, help=None, required=False, note=None, bounds=(None, None)):
    """A flag of absl: `kind` is what follows `DEFINE_`."""
    more = {"choices": choices, "help": help, "required": required, "note": note, "enum": "name", "least": bounds[0], "most": bounds[1]}
    if kind in ("bool", "boolean"):
        return parameter(name, "truth", default, "bool", **more)
    if kind.startswith("multi"):
        return parameter(name, "repeat", default, kind, **more)
    if kind == "list":
        return parameter(name, "commas", default.split(",") if isinstance(default, str) else default, kind, **more)
    if kind == "spaceseplist":
        more["note"] = note or "a list is one text with spaces"
        default = " ".join(map(str, default)) if isinstance(default, (list, tuple)) else default
    return parameter(name, "value", default, kind, **more)


def of_config(prefix, values):
    """The values of a configuration of ml_collections."""
    for name, value in sorted(leaves(values)):
        if isinstance(value, (list, tuple)):
            yield parameter(prefix + "." + name, "other", value, type(value).__name__, note="it is a sequence: write it in `argv`")
        elif isinstance(value, (bool, int, float, str)):
            yield parameter(prefix + "." + name, "truth" if isinstance(value, bool) else "value", value, type(value).__name__)
        elif not isinstance(value, dict):
            yield parameter(prefix + "." + name, "value", None, None)
