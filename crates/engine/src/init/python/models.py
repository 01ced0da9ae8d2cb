# Continues `tree.py`: packages that read parameters, as far as a syntax tree shows what they read.

import types


class Parser(Model):
    """A parser of argparse, one of its groups, or the place of its commands: real ones, which are only described."""

    def __init__(self, real, root=None):
        self.real, self.root = real, root or self

    def method(self, follower, name, args, kwargs):
        if name.startswith("parse_"):
            return self.parse(follower, name, args, kwargs)
        if name in ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"):
            return self.group(follower, name, args, kwargs)
        if follower.unsure:
            follower.taint(self, "it is changed in a branch that may not be run")
        if name == "add_argument":
            return self.argument(follower, args, kwargs)
        if name == "set_defaults" and not args and not is_open(kwargs) and "**" not in kwargs:
            self.real.set_defaults(**{key: value for key, value in kwargs.items() if is_pure(value)})
        elif name == "error":
            raise Ended()
        elif name in ("print_help", "format_help", "print_usage", "format_usage", "get_default"):
            return Unknown()
        else:
            follower.taint(self, "`%s` changes it" % name)
        return Unknown()

    def group(self, follower, name, args, kwargs):
        known = {key: kwargs[key] for key in ("required", "dest", "add_help", "parents", "conflict_handler") if key in kwargs}
        if is_open([known, args]):
            follower.taint(self, "`%s` has computed arguments" % name)
        known["parents"] = [one.real for one in known.get("parents", []) if isinstance(one, Parser)]
        if name != "add_parser" or not known["parents"]:
            known.pop("parents")
        if name in ("add_argument_group", "add_subparsers"):
            args = []
        try:
            return Parser(getattr(self.real, name)(*args, **known), self.root)
        except Exception:
            follower.taint(self, "`%s` cannot be followed" % name)
            return Unknown()

    def argument(self, follower, args, kwargs):
        import argparse

        names, note, known = [name for name in args if isinstance(name, str)], None, {}
        if len(names) < len(args) or "**" in kwargs or not names and "dest" not in kwargs:
            follower.taint(self, "an option has a computed name")
            return Unknown()
        for key, value in kwargs.items():
            if key in ("default", "choices") and (is_open(value) or isinstance(value, (Symbol, Instance))):
                note = "its %s computed by the script" % ("default is" if key == "default" else "choices are")
            elif key == "type":
                known[key] = value if isinstance(value, Symbol) else follower.callable(value)
                if isinstance(value, Unknown):
                    known.pop(key)
            elif key == "action":
                known[key] = self.action(follower, value)
            elif key == "choices":
                known[key] = list(value) if type(value).__name__.startswith("dict_") else value
            elif key in ("help", "metavar"):
                known[key] = value if isinstance(value, (str, tuple)) and not is_open(value) else None
            elif isinstance(value, Unknown) and key in ("nargs", "required", "dest"):
                follower.taint(self, "`%s` of `%s` is computed" % (key, names[0]))
            elif key != "const" or known.get("action"):
                known[key] = None if isinstance(value, Unknown) else value
        if known.get("action", 0) is None:
            return Unknown()
        known = {key: value for key, value in known.items() if key != "metavar"}
        try:
            action = self.real.add_argument(*names, **known)
        except Exception:
            follower.taint(self, "`%s` cannot be followed" % names[0])
            return Unknown()
        if isinstance(action, (argparse._StoreTrueAction, argparse._StoreFalseAction)):
            note = None
        if note:
            action.note = note
            follower.taint(self, "the %s of `%s` %s computed" % (("default", names[0], "is") if "default" in note else ("choices", names[0], "are")))
        return action

    def action(self, follower, value):
        import argparse

        if isinstance(value, Symbol) and value.__name__ == "BooleanOptionalAction":
            return getattr(argparse, "BooleanOptionalAction", None)
        if isinstance(value, Class) and "argparse.Action" in value.ancestors() and value.find("__init__") is None or isinstance(value, str):
            return value if isinstance(value, str) else type(value.name, (argparse.Action,), {"__call__": None})
        follower.taint(self, "an option has an action that is not known")
        return None

    def parse(self, follower, name, args, kwargs):
        given = kwargs.get("args", args[0] if args else None)
        if not isinstance(self.real, argparse_module().ArgumentParser):
            return Unknown()
        ours = given is None or given == follower.arguments
        before = name == "parse_known_args" and not self.real.add_help
        if isinstance(given, Unknown):
            follower.taint(self, "it parses a computed list")
            ours = True
        if ours and not before:
            return follower.read(self, of_parser, self.real)
        known = None if id(self.root) in follower.partial else self.parsed(follower.arguments if ours else given)
        if known is None:
            return (Unknown(), Unknown()) if name == "parse_known_args" else Unknown()
        found = Configuration()
        found.values = vars(known[0])
        return (found, known[1]) if name == "parse_known_args" else found

    def parsed(self, arguments):
        import contextlib
        import io

        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                return self.real.parse_known_args([str(argument) for argument in arguments])
        except (Exception, SystemExit):
            return None


def argparse_module():
    import argparse

    return argparse


@models("argparse.ArgumentParser")
def argparse_parser(follower, args, kwargs):
    import argparse

    known = {key: kwargs[key] for key in ("add_help", "argument_default", "conflict_handler", "prefix_chars", "fromfile_prefix_chars") if key in kwargs}
    parents = kwargs.get("parents", [])
    parser = Parser(None)
    is_whole = isinstance(parents, list) and all(isinstance(one, Parser) for one in parents) and not is_open(known) and "**" not in kwargs
    known = {key: value for key, value in known.items() if not is_open(value)}
    parser.real = argparse.ArgumentParser(parents=[one.real for one in parents if isinstance(one, Parser)], **known)
    if not is_whole:
        follower.taint(parser, "it has parents or arguments that are not known")
    for one in parents if is_whole else []:
        if id(one.root) in follower.partial:
            follower.taint(parser, follower.partial[id(one.root)][1])
    return parser


@models("argparse.FileType")
def argparse_file(follower, args, kwargs):
    import argparse

    return argparse.FileType(*args)


# Dataclasses that a package reads


def whole(follower, kind):
    """Why the tree does not show all fields of a class, or nothing."""
    if isinstance(kind, Function):
        hints = [hint for _, _, _, hint in follower.signature(kind)]
        defaults = [default for _, _, default, _ in follower.signature(kind)]
        if any(is_open(default) for default in defaults):
            return "a default of `%s` is computed" % kind.name
        inner = [whole(follower, hint) for hint in hints if isinstance(hint, type) and hint in follower.about]
        return next(filter(None, inner), "" if not any(isinstance(hint, (Unknown, Symbol, Class)) for hint in hints) else "types of `%s` are not in this file" % kind.name)
    if not isinstance(kind, type) or kind not in follower.about:
        return "the class of the parameters is not in this file"
    if not follower.about[kind].is_whole:
        return "not all of `%s` is in this file" % kind.__name__
    for field in dataclasses.fields(kind):
        made = field.default if field.default is not dataclasses.MISSING else field.default_factory
        if isinstance(field.default, (Unknown, Symbol, Function)) or isinstance(made, (Unknown, Symbol)):
            return "the default of `%s` is computed" % field.name
        if isinstance(field.type, type) and field.type in follower.about and whole(follower, field.type):
            return whole(follower, field.type)
    return ""


def stub(follower, function):
    """A function with the arguments of one of the script."""
    import inspect

    def made():
        pass

    parameters, made.__annotations__ = [], {}
    for name, kind, default, hint in follower.signature(function):
        default = inspect.Parameter.empty if default is EMPTY else default
        parameters.append(inspect.Parameter(name, kind, default=default))
        if hint is not EMPTY:
            made.__annotations__[name] = typing.Any if isinstance(hint, (Unknown, Symbol, Class)) else hint
    made.__signature__ = inspect.Signature(parameters)
    return made


def read_fields(follower, source, rules, kinds, default=None, join=None):
    """The script reads the fields of classes, or the arguments of functions."""
    owner = Model()
    for kind in kinds:
        why = whole(follower, kind)
        if why:
            follower.taint(owner, why)
    if default is not None and not dataclasses.is_dataclass(default):
        follower.taint(owner, "the defaults are computed")
        default = None
    known = [kind for kind in kinds if isinstance(kind, Function) or isinstance(kind, type) and kind in follower.about]
    if not known:
        return Unknown()
    rules.docs = lambda kind, name: follower.about[kind].helps.get(name) if kind in follower.about else None
    entries = []
    for kind in known:
        real = stub(follower, kind) if isinstance(kind, Function) else kind
        entries += list(of_fields(rules, real, default))
    names = [entry["name"] for entry in entries]
    if len(names) != len(set(names)):
        follower.taint(owner, "two fields have the same name")
    return follower.read(owner, report, source, entries)


@models("tyro.cli")
def tyro_cli(follower, args, kwargs):
    default = kwargs.get("default")
    if not args or set(kwargs) - {"default", "description", "prog"} or isinstance(default, Symbol):
        return Unknown()
    return read_fields(follower, "tyro", Rules("pair"), args[:1], default)


@models("draccus.parse", "pyrallis.parse")
def draccus_parse(follower, args, kwargs):
    return read_fields(follower, "draccus", Rules(), [kwargs.get("config_class", args[0] if args else None)])


@models("draccus.wrap", "pyrallis.wrap")
def draccus_wrap(follower, args, kwargs):
    def decorated(function):
        def called(*args, **kwargs):
            signature = follower.signature(function)
            return read_fields(follower, "draccus", Rules(), [signature[0][3]]) if signature else Unknown()

        return Decorator(called) if isinstance(function, Function) else Unknown()

    return Decorator(decorated)


@models("simple_parsing.parse")
def simple_parse(follower, args, kwargs):
    if set(kwargs) - {"config_class", "dest", "default", "description"}:
        return Unknown()
    return read_fields(follower, "argparse", Rules(join=False), [kwargs.get("config_class", args[0] if args else None)], kwargs.get("default"))


class SimpleParser(Parser):
    """A parser of simple_parsing, which also takes dataclasses."""

    def __init__(self, real):
        super().__init__(real)
        self.classes = []

    def method(self, follower, name, args, kwargs):
        if name == "add_arguments":
            self.classes.append(args[0] if args else None)
            return Unknown()
        if name in ("parse_args", "parse_known_args") and not args and not kwargs:
            return follower.read(self, self.describe, follower)
        return super().method(follower, name, args, kwargs)

    def describe(self, follower):
        entries = [of_action(self.real, action, ()) for action in self.real._actions]
        rules = Rules(join=False, docs=lambda kind, name: follower.about[kind].helps.get(name))
        groups = []
        for kind in self.classes:
            why = whole(follower, kind)
            if why:
                follower.taint(self, why)
            else:
                # Fields of inner classes follow those of the outer ones.
                found = [with_choices(kind, entry) for entry in of_fields(Rules(docs=rules.docs), kind)]
                groups += [dict(one, name=one["name"].rpartition(".")[2]) for one in sorted(found, key=lambda one: one["name"].count("."))]
        names = [entry["name"] for entry in groups]
        if len(names) != len(set(names)):
            follower.taint(self, "two fields have the same name")
        report("argparse", entries + groups)


@models("simple_parsing.ArgumentParser")
def simple_parser(follower, args, kwargs):
    import argparse

    return SimpleParser(argparse.ArgumentParser())


@models("simple_parsing.choice", "simple_parsing.helpers.choice")
def simple_choice(follower, args, kwargs):
    values = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple, dict)) else args
    known = {key: kwargs[key] for key in ("default", "default_factory") if key in kwargs}
    return dataclasses.field(metadata={"choices": list(values)}, **known)


def with_choices(kind, entry):
    """An entry with the choices that simple_parsing's `choice` has given its field."""
    field = next((field for field in dataclasses.fields(kind) if field.name == entry["name"]), None)
    choices = field.metadata.get("choices") if field is not None else None
    return dict(entry, choices=[plain(choice) for choice in choices]) if choices else entry


@models("transformers.HfArgumentParser")
def hf_parser(follower, args, kwargs):
    kinds = args[0] if args else kwargs.get("dataclass_types")
    return HuggingFaceParser(list(kinds) if isinstance(kinds, (list, tuple)) else [kinds])


class HuggingFaceParser(Model):
    def __init__(self, kinds):
        import argparse

        self.kinds, self.parser = kinds, Parser(argparse.ArgumentParser(), self)

    def method(self, follower, name, args, kwargs):
        if name.startswith("parse_args") or name == "parse_known_args":
            return follower.read(self, self.describe, follower)
        if name.startswith("parse_"):
            return Unknown()
        return self.parser.method(follower, name, args, kwargs)

    def describe(self, follower):
        entries = []
        for kind in self.kinds:
            why = whole(follower, kind)
            if why:
                follower.taint(self, why)
            if not isinstance(kind, type) or kind not in follower.about:
                continue
            for entry in of_fields(Rules(enum="value"), kind):
                field = next(field for field in dataclasses.fields(kind) if field.name == entry["name"])
                if isinstance(field.metadata.get("help"), str):
                    entry["help"] = text(field.metadata["help"])
                entries.append(entry)
                if entry["style"] == "truth" and entry["default"] is True:
                    entries.append(parameter("no_" + entry["name"], "flag", False))
        report("argparse", entries + [of_action(self.parser.real, action, ()) for action in self.parser.real._actions])


@models("pydantic.Field")
def pydantic_field(follower, args, kwargs):
    known = {key: kwargs[key] for key in ("default", "default_factory") if key in kwargs}
    if args and args[0] is not ...:
        known["default"] = args[0]
    if isinstance(known.get("default"), (list, dict, set)):
        inner = known.pop("default")
        known["default_factory"] = lambda: inner
    if "default_factory" in known:
        known["default_factory"] = follower.callable(known["default_factory"])
    return dataclasses.field(**known)


@models("pydantic_settings.SettingsConfigDict", "pydantic.ConfigDict")
def pydantic_config(follower, args, kwargs):
    return dict(kwargs)


@models("BaseSettings")
def pydantic_settings(follower, kind, args, kwargs):
    config = getattr(kind, "model_config", {})
    if kwargs.get("_cli_parse_args") or isinstance(config, dict) and config.get("cli_parse_args"):
        return read_fields(follower, "pydantic", Rules(enum="value", short=True), [kind])
    if isinstance(config, dict) and not whole(follower, kind):
        prefix = config.get("env_prefix", "")
        for entry in of_fields(Rules(enum="value"), kind):
            if "." not in entry["name"] and entry["style"] in ("value", "truth"):
                name = (prefix + entry["name"]).upper()
                follower.variables[name] = dict(entry, name=name, style="value")
    return Unknown()


@models("pydantic_settings.CliApp.run")
def pydantic_run(follower, args, kwargs):
    return read_fields(follower, "pydantic", Rules(enum="value", short=True), [args[0] if args else kwargs.get("model_cls")])


# click and typer


class Decorator(Model):
    """A function of a package with one effect."""

    def __init__(self, apply):
        self.apply = apply

    def call(self, follower, args, kwargs):
        return self.apply(*args, **kwargs)


class Command(Model):
    """A command of click, or a group of commands."""

    def __init__(self, name, function, entries, is_group):
        self.name, self.function, self.entries, self.is_group = name, function, entries, is_group
        self.commands = {}

    def method(self, follower, name, args, kwargs):
        if name in ("command", "group") and self.is_group:
            return click_command(follower, args, kwargs, is_group=name == "group", owner=self)
        if name == "add_command" and args and isinstance(args[0], Command):
            chosen = kwargs.get("name", args[1] if len(args) > 1 else args[0].name)
            self.commands[chosen] = args[0]
            return None
        if name == "main":
            return self.call(follower, args, kwargs)
        follower.taint(self, "`%s` changes it" % name)
        return Unknown()

    def call(self, follower, args, kwargs):
        return follower.read(self, self.describe, follower)

    def describe(self, follower):
        command, arguments = self, [argument for argument in ARGUMENTS if not argument.startswith("-")]
        while command.is_group:
            chosen = next((argument for argument in arguments if argument in command.commands), None)
            if chosen is None:
                report("click", [], commands=[text(name) for name in sorted(command.commands)[:50]])
            arguments = arguments[arguments.index(chosen) + 1:]
            command = command.commands[chosen]
        if any(isinstance(entry, Unknown) for entry in command.entries):
            follower.taint(self, "an option is computed")
        report("click", [entry for entry in command.entries if not isinstance(entry, Unknown)])


def click_command(follower, args, kwargs, is_group=False, owner=None):
    def decorated(function):
        if not isinstance(function, Function):
            return Unknown()
        given = kwargs.get("name", args[0] if args and isinstance(args[0], str) else None)
        name = given or function.name.lower().replace("_", "-")
        for end in ("-command", "-cmd", "-group", "-grp"):
            name = name[: -len(end)] if not given and name.endswith(end) else name
        command = Command(name, function, list(reversed(function.params)), is_group)
        if "cls" in kwargs or "**" in kwargs or "params" in kwargs:
            follower.taint(command, "its class is not click's")
        if owner is not None:
            owner.commands[name] = command
        return command

    if args and isinstance(args[0], Function):
        return decorated(args[0])
    return Decorator(decorated)


@models("click.command")
def click_single(follower, args, kwargs):
    return click_command(follower, args, kwargs)


@models("click.group")
def click_group(follower, args, kwargs):
    return click_command(follower, args, kwargs, is_group=True)


def click_param(entry):
    def decorated(function):
        if isinstance(function, Function):
            function.params.append(entry)
        elif isinstance(function, Command):
            function.entries.append(entry)
        return function

    return Decorator(decorated)


@models("click.version_option", "click.help_option")
def click_other(follower, args, kwargs):
    return click_param(None)


@models("click.confirmation_option", "click.password_option")
def click_unknown(follower, args, kwargs):
    return click_param(Unknown())


class Kind:
    """A type of click."""

    def __init__(self, name, choices=None):
        self.name, self.choices = name, choices


@models("click.Choice")
def click_choice(follower, args, kwargs):
    choices = args[0] if args else kwargs.get("choices")
    choices = list(choices) if isinstance(choices, (list, tuple, dict, enum.EnumMeta)) or type(choices).__name__ == "dict_keys" else Unknown()
    return Unknown() if is_open(choices) else Kind("choice", [one.name if isinstance(one, enum.Enum) else one for one in choices])


@models("click.Path", "click.File", "click.IntRange", "click.FloatRange", "click.DateTime")
def click_kind(follower, args, kwargs):
    return Kind("text")


CLICK_KINDS = {int: "integer", float: "float", str: "text", bool: "boolean"}


@models("click.option")
def click_option(follower, args, kwargs):
    names = [name for name in args if isinstance(name, str)]
    kind, default = kwargs.get("type"), kwargs.get("default")
    open_keys = [key for key, value in kwargs.items() if isinstance(value, Unknown) and key not in ("help", "callback", "metavar")]
    if open_keys or len(names) < len(args) or is_open(default) or "cls" in kwargs or "**" in kwargs:
        return click_param(Unknown())
    opts, seconds, given = [], [], None
    for name in names:
        split = ";" if name[:1] == "/" else "/"
        if name.isidentifier():
            given = name
        elif split in name:
            first, second = name.split(split, 1)
            opts += [first.strip()] if first.strip() else []
            seconds.append(second.strip())
        else:
            opts.append(name)
    if isinstance(default, (Function, Symbol, Method)) or callable(default):
        default = None
    is_flag = kwargs.get("is_flag")
    is_flag = bool(is_flag) if is_flag is not None else bool(seconds) or kwargs.get("flag_value") is not None
    nargs = kwargs.get("nargs", len(kind) if isinstance(kind, tuple) else 1)
    if kind is None and not is_flag and default is not None:
        inner = default[0] if kwargs.get("multiple") and isinstance(default, (list, tuple)) and default else default
        kind = type(inner) if type(inner) in CLICK_KINDS else None
        nargs = len(default) if isinstance(default, tuple) and nargs == 1 and not kwargs.get("multiple") else nargs
    shown = kind if isinstance(kind, Kind) else Kind("boolean" if is_flag else CLICK_KINDS.get(kind, "text") if not isinstance(kind, tuple) else "tuple")
    found = types.SimpleNamespace(
        default=default, type=shown, help=kwargs.get("help"), required=bool(kwargs.get("required")), opts=opts, secondary_opts=seconds,
        is_flag=is_flag, hidden=kwargs.get("hidden"), expose_value=kwargs.get("expose_value", True), count=kwargs.get("count"),
        multiple=bool(kwargs.get("multiple")), nargs=nargs, name=given, is_bool_flag=not kwargs.get("flag_value"),
    )  # fmt: skip
    if isinstance(found.help, (Unknown, Symbol)):
        found.help = None
    if found.count and default is None:
        found.default = 0
    return click_param(of_click(found))


@models("click.argument")
def click_argument(follower, args, kwargs):
    names = [name for name in args if isinstance(name, str)]
    kind, default = kwargs.get("type"), kwargs.get("default")
    if not names or is_open(default) or isinstance(kind, Unknown):
        return click_param(Unknown())
    default = None if callable(default) or isinstance(default, (Function, Symbol)) else default
    required = kwargs.get("required", default is None and kwargs.get("nargs", 1) != -1)
    kind = kind if isinstance(kind, Kind) else Kind(CLICK_KINDS.get(kind, "text") if not isinstance(kind, tuple) else "tuple")
    return click_param(of_click(types.SimpleNamespace(default=default, type=kind, required=bool(required), name=names[0].lower().lstrip("-"))))


class TyperInfo:
    def __init__(self, is_option, args, kwargs):
        self.is_option, self.args, self.kwargs = is_option, args, kwargs


@models("typer.Option")
def typer_option(follower, args, kwargs):
    return TyperInfo(True, args, kwargs)


@models("typer.Argument")
def typer_argument(follower, args, kwargs):
    return TyperInfo(False, args, kwargs)


def of_typer(name, kind, default, hint):
    """An argument of a function, as typer reads it: an entry, nothing, or `Unknown`."""
    info = default if isinstance(default, TyperInfo) else None
    default = EMPTY if default is ... else default
    if info is not None:
        default = info.kwargs.get("default", info.args[0] if info.args else EMPTY)
        names = [one for one in info.args[1:] if isinstance(one, str)]
    elif hasattr(hint, "__metadata__"):
        info = next((mark for mark in hint.__metadata__ if isinstance(mark, TyperInfo)), None)
        hint = typing.get_args(hint)[0]
        names = [one for one in info.args if isinstance(one, str)] if info else []
    else:
        names = []
    if isinstance(hint, Symbol) and hint.path.endswith(".Context"):
        return None
    default = EMPTY if default is ... else default
    more = info.kwargs if info else {}
    if is_open(default) or isinstance(default, (Function, Symbol)) or isinstance(hint, (Unknown, Symbol, Class)) or "**" in more:
        return Unknown()
    if more.get("hidden"):
        return None
    hint = str if hint is EMPTY else hint
    inner = [one for one in typing.get_args(hint) if one is not type(None)] if typing.get_origin(hint) is typing.Union else []
    hint = inner[0] if len(inner) == 1 else hint
    missing = default is EMPTY
    value = None if missing else default
    choices = [member.value for member in hint] if isinstance(hint, enum.EnumMeta) else list(typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else None
    kind = "choice" if choices else CLICK_KINDS.get(hint, "path" if isinstance(hint, type) and issubclass(hint, pathlib.PurePath) else "text")
    entry = {"default": value, "kind": kind, "choices": choices, "help": more.get("help") if isinstance(more.get("help"), str) else None}
    entry.update(required=missing, enum="value")
    is_list = typing.get_origin(hint) in (list, tuple)
    if info is not None and not info.is_option or info is None and missing:
        return parameter(name, "position", **entry)
    long = name.replace("_", "-")
    negative = "no-" + long
    if names:
        first, _, second = next((one for one in names if one.startswith("--")), names[0]).partition("/")
        long, negative = first.strip().lstrip("-"), second.strip().lstrip("-")
        if not first.startswith("--"):
            return parameter(long, "short", option=first, **entry) if hint is not bool else Unknown()
    if hint is bool and negative:
        return parameter(long, "pair", negative=negative, **dict(entry, default=bool(value)))
    if hint is bool:
        return parameter(long, "flag", **dict(entry, default=False)) if not value else Unknown()
    if more.get("count") or typing.get_origin(hint) is list:
        return parameter(long, "other", note="it is given several times: write it in `argv`", **entry)
    if is_list:
        return parameter(long, "list", **entry)
    return parameter(long, "truth" if isinstance(value, bool) else "value", **entry)


class Typer(Model):
    def __init__(self, function=None):
        self.functions, self.has_callback = {}, False
        if function is not None:
            self.functions[function.name] = function

    def method(self, follower, name, args, kwargs):
        if name == "callback":
            self.has_callback = True
            return Decorator(lambda function: function)
        if name == "add_typer" and args and isinstance(args[0], Typer):
            self.functions[kwargs.get("name", "")] = args[0]
            return None
        if name != "command":
            follower.taint(self, "`%s` changes it" % name)
            return Unknown()

        def decorated(function):
            given = kwargs.get("name", args[0] if args and isinstance(args[0], str) else None)
            self.functions[given or function.name.lower().replace("_", "-")] = function
            return function

        return Decorator(decorated)

    def call(self, follower, args, kwargs):
        return follower.read(self, self.describe, follower)

    def describe(self, follower):
        owner, arguments = self, [argument for argument in ARGUMENTS if not argument.startswith("-")]
        while isinstance(owner, Typer):
            if len(owner.functions) == 1 and not owner.has_callback and isinstance(next(iter(owner.functions.values())), Function):
                owner = next(iter(owner.functions.values()))
                break
            chosen = next((argument for argument in arguments if argument in owner.functions), None)
            if chosen is None:
                report("click", [], commands=[text(name) for name in list(owner.functions)[:50]])
            arguments = arguments[arguments.index(chosen) + 1:]
            owner = owner.functions[chosen]
        entries = [of_typer(*argument) for argument in follower.signature(owner)]
        if any(isinstance(entry, Unknown) for entry in entries):
            follower.taint(self, "an option is computed")
        report("click", [entry for entry in entries if not isinstance(entry, Unknown)])


@models("typer.Typer")
def typer_app(follower, args, kwargs):
    return Typer()


@models("typer.run")
def typer_run(follower, args, kwargs):
    return Typer(args[0]).call(follower, [], {}) if args and isinstance(args[0], Function) else Unknown()


# sweep, Fire, absl, ml_collections, optparse, docopt, OmegaConf, jsonargparse


@models("sweep.params")
def sweep_params(follower, args, kwargs):
    owner = Model()
    if is_open(kwargs) or "**" in kwargs:
        follower.taint(owner, "a default is computed")
    kwargs = {name: value for name, value in kwargs.items() if not isinstance(value, Unknown) and name != "**"}
    return follower.read(owner, of_sweep, kwargs)


@models("fire.Fire")
def fire_fire(follower, args, kwargs):
    component = kwargs.get("component", args[0] if args else EMPTY)
    if component is EMPTY or component is None:
        component = {name: value for name, value in follower.module.names.items() if isinstance(value, Function) and value.node.name == name}
    if isinstance(component, (Unknown, Symbol)) or is_open(component):
        return Unknown()
    owner = Model()

    def describe():
        chosen, arguments = component, None
        commands = component if isinstance(component, dict) else None
        kind = component.kind if isinstance(component, Instance) else component if isinstance(component, Class) else None
        if kind is not None:
            commands = {name: value for name, value in sorted(kind.values.items()) if isinstance(value, Function) and not name.startswith("_")}
        if commands is not None:
            name = next((argument for argument in ARGUMENTS if argument in commands), None)
            if name is None:
                report("fire", [], commands=[text(name) for name in list(commands)[:50]])
            chosen = commands[name]
        if not isinstance(chosen, Function):
            follower.taint(owner, "it is not a function of this file")
            report("fire", [])
        found = follower.signature(chosen.with_self(None) if kind is not None else chosen)
        if isinstance(component, Class):
            found += [one for one in follower.constructor(component) if one[0] not in [other[0] for other in found]]
        if any(is_open(default) for _, _, default, _ in found):
            follower.taint(owner, "a default is computed")
        of_signature("fire", [(name, default is EMPTY, default) for name, _, default, _ in found if not is_open(default)])

    return follower.read(owner, describe)


class Flags(Model):
    """The flags of absl."""

    def __init__(self):
        self.entries, self.required = {}, set()

    def describe(self):
        report("absl", [dict(entry, required=entry["required"] or name in self.required) for name, entry in self.entries.items()])

    def method(self, follower, name, args, kwargs):
        return Unknown()


def absl_define(kind):
    def define(follower, args, kwargs):
        names = ("name", "default", "enum_values", "help") if kind in ("enum",) else ("name", "default", "enum_class", "help") if kind == "enum_class" else ("name", "default", "help")
        given = dict(zip(names, args))
        given.update(kwargs)
        flags = follower.flags
        default, choices = given.get("default"), given.get("enum_values")
        if not isinstance(given.get("name"), str) or follower.unsure:
            follower.taint(flags, "a flag has a computed name or is in a branch")
            return Unknown()
        note = None
        if is_open(default) or isinstance(default, (Symbol, Instance)) or is_open(choices):
            follower.taint(flags, "the default of `%s` is computed" % given["name"])
            default, choices, note = None, None, "its default is computed by the script"
        if kind == "enum_class":
            members = given.get("enum_class")
            choices = [name.lower() for name in members.__members__] if isinstance(members, enum.EnumMeta) else []
            default = default.name.lower() if isinstance(default, enum.Enum) else default.lower() if isinstance(default, str) else default
        help = given.get("help") if isinstance(given.get("help"), str) else None
        flags.entries[given["name"]] = of_absl(given["name"], kind, default, choices, help, given.get("required") is True, note)
        return Unknown()

    return define


for kind in ("bool", "boolean", "float", "integer", "string", "enum", "enum_class", "list", "spaceseplist"):
    models("absl.flags.DEFINE_" + kind)(absl_define(kind))
for kind in ("string", "integer", "float", "enum", "enum_class"):
    models("absl.flags.DEFINE_multi_" + kind)(absl_define("multi " + kind))


@models("absl.flags.mark_flag_as_required")
def absl_required(follower, args, kwargs):
    follower.flags.required.update(name for name in args if isinstance(name, str))


@models("absl.flags.mark_flags_as_required")
def absl_all_required(follower, args, kwargs):
    follower.flags.required.update(args[0] if args and isinstance(args[0], list) else [])


@models("absl.app.run")
def absl_run(follower, args, kwargs):
    return follower.read(follower.flags, follower.flags.describe)


@models("absl.flags.FLAGS")
def absl_parse(follower, args, kwargs):
    return follower.read(follower.flags, follower.flags.describe)


@models("ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict", "ml_collections.config_dict.config_dict.ConfigDict")
def ml_config(follower, args, kwargs):
    initial = args[0] if args else kwargs.get("initial_dictionary")
    return initial if isinstance(initial, Configuration) else Configuration(initial if isinstance(initial, dict) else None)


def define_config(follower, name, config):
    if isinstance(config, Configuration) and not is_open(config.plain()):
        for entry in of_config(name, config.plain()):
            follower.flags.entries[entry["name"]] = entry
    else:
        follower.taint(follower.flags, "the configuration is computed")


@models("ml_collections.config_flags.DEFINE_config_file", "ml_collections.config_flags.config_flags.DEFINE_config_file")
def ml_file(follower, args, kwargs):
    given = dict(zip(("name", "default", "help_string"), args))
    given.update(kwargs)
    name, default = given.get("name"), given.get("default")
    if not isinstance(name, str) or is_open(default) or isinstance(default, Symbol):
        follower.taint(follower.flags, "the configuration has a computed name")
        return Unknown()
    help = given.get("help_string", "path to config file.")
    follower.flags.entries[name] = parameter(name, "value", default, "config", help=help if isinstance(help, str) else None)
    chosen = next((argument.partition("=")[2] for argument in ARGUMENTS if argument.startswith("--%s=" % name)), default)
    path, _, argument = chosen.partition(":") if chosen else ("", "", "")
    if path:
        try:
            inner = Follower(path, follower.arguments)
            inner.module.names["__name__"] = "config"
            inner.flags, inner.variables = Flags(), {}
            inner.follow()
            function = inner.module.names.get("get_config")
            found = inner.call(function, [argument] if argument else [], {}, None)
        except (OSError, SyntaxError, ValueError, Ended, Raised, Answered):
            found = Unknown()
        define_config(follower, name, found)
    return Unknown()


@models("ml_collections.config_flags.DEFINE_config_dict", "ml_collections.config_flags.config_flags.DEFINE_config_dict")
def ml_dict(follower, args, kwargs):
    if len(args) > 1 and isinstance(args[0], str):
        define_config(follower, args[0], args[1])
    return Unknown()


class OptionParser(Model):
    def __init__(self, real, root=None):
        self.real, self.root = real, root or self

    def method(self, follower, name, args, kwargs):
        if follower.unsure and name.startswith(("add", "set")):
            follower.taint(self, "it is changed in a branch that may not be run")
        if name == "add_option":
            self.option(follower, args, kwargs)
        elif name == "set_defaults" and not is_open(kwargs):
            self.real.set_defaults(**kwargs)
        elif name == "parse_args":
            return follower.read(self, of_optparse, self.real)
        elif name == "add_option_group" and args and isinstance(args[0], OptionParser):
            self.real.add_option_group(args[0].real)
            return args[0]
        elif name not in ("print_help", "set_usage", "set_description", "format_help"):
            follower.taint(self, "`%s` changes it" % name)
        return Unknown()

    def option(self, follower, args, kwargs):
        names = [name for name in args if isinstance(name, str)]
        known = {key: value for key, value in kwargs.items() if not is_open(value) and not isinstance(value, Symbol) and key != "callback"}
        known = {key: value.__name__ if key == "type" and isinstance(value, type) else value for key, value in known.items()}
        is_whole = len(known) == len(kwargs) and len(names) == len(args)
        try:
            option = self.real.add_option(*names, **known)
        except Exception:
            is_whole, option = False, None
        if not is_whole:
            follower.taint(self, "an option is computed")
            if option is not None and "default" in kwargs and "default" not in known:
                option.note = "its default is computed by the script"


@models("optparse.OptionParser")
def optparse_parser(follower, args, kwargs):
    import optparse

    return OptionParser(optparse.OptionParser())


@models("optparse.OptionGroup")
def optparse_group(follower, args, kwargs):
    import optparse

    if not args or not isinstance(args[0], OptionParser):
        return Unknown()
    return OptionParser(optparse.OptionGroup(args[0].real, ""), args[0].root)


@models("docopt.docopt")
def docopt_docopt(follower, args, kwargs):
    doc = args[0] if args else kwargs.get("doc")
    return follower.read(Model(), of_docopt, doc) if isinstance(doc, str) else Unknown()


class FromCli:
    """The command line as OmegaConf has it."""


@models("omegaconf.OmegaConf.from_cli")
def omegaconf_cli(follower, args, kwargs):
    return Unknown() if args and args[0] != follower.arguments else FromCli()


@models("omegaconf.OmegaConf.create")
def omegaconf_create(follower, args, kwargs):
    found = args[0] if args else {}
    if isinstance(found, str):
        found = from_yaml(found)
    return Configuration(found) if isinstance(found, dict) else found if isinstance(found, Configuration) else Unknown()


@models("omegaconf.OmegaConf.structured")
def omegaconf_structured(follower, args, kwargs):
    kind = args[0] if args else None
    made = follower.attempt(kind, [], {}) if isinstance(kind, type) and kind in follower.about else kind
    if type(made) not in follower.about or whole(follower, type(made)):
        return Unknown()
    values = dataclasses.asdict(made)
    return Configuration({name: value.name if isinstance(value, enum.Enum) else value for name, value in values.items()})


def from_yaml(words):
    try:
        import yaml

        return yaml.safe_load(words)
    except Exception:
        return Unknown()


@models("omegaconf.OmegaConf.load")
def omegaconf_load(follower, args, kwargs):
    try:
        found = from_yaml(pathlib.Path(args[0]).read_text())
    except (OSError, ValueError, TypeError, IndexError):
        return Unknown()
    return Configuration(found) if isinstance(found, dict) else Unknown()


@models("omegaconf.OmegaConf.merge")
def omegaconf_merge(follower, args, kwargs):
    others = [value for value in args if not isinstance(value, FromCli)]
    owner, values = Model(), {}
    for other in others:
        if isinstance(other, type) and other in follower.about or type(other) in follower.about:
            other = omegaconf_structured(follower, [other], {})
        if isinstance(other, dict):
            other = Configuration(other)
        if not isinstance(other, Configuration) or is_open(other.plain()):
            follower.taint(owner, "a configuration is computed")
        else:
            values = merged(values, other.plain())
    if len(others) == len(args):
        return Configuration(values) if id(owner) not in follower.partial else Unknown()
    return follower.read(owner, report, "omegaconf", [of_hydra(name, plain_value) for name, plain_value in leaves(values)])


def merged(first, second):
    found = dict(first)
    for name, value in second.items():
        found[name] = merged(found[name], value) if isinstance(value, dict) and isinstance(found.get(name), dict) else value
    return found


@models("jsonargparse.CLI", "jsonargparse.auto_cli")
def jsonargparse_cli(follower, args, kwargs):
    components = kwargs.get("components", args[0] if args else None)
    if set(kwargs) - {"components", "as_positional"} or components is None:
        return Unknown()
    if isinstance(components, (list, tuple, dict)):
        named = components if isinstance(components, dict) else {one.name: one for one in components if isinstance(one, Function)}
        chosen = next((argument for argument in ARGUMENTS if argument in named), None)
        if chosen is None:
            return follower.read(Model(), lambda: report("jsonargparse", [], commands=[text(name) for name in list(named)[:50]]))
        components = named[chosen]
    if not isinstance(components, Function) and components not in follower.about:
        return Unknown()
    return read_fields(follower, "jsonargparse", Rules(), [components])


class JsonParser(Parser):
    """A parser of jsonargparse, which also takes classes and functions."""

    def __init__(self):
        import argparse

        super().__init__(argparse.ArgumentParser())
        self.entries = []

    def method(self, follower, name, args, kwargs):
        if name in ("add_class_arguments", "add_function_arguments", "add_dataclass_arguments") and args and isinstance(args[0], (Class, Function, type)):
            prefix = kwargs.get("nested_key", args[1] if len(args) > 1 else None)
            made = args[0].find("__init__") if isinstance(args[0], Class) else args[0]
            made = made.with_self(None) if isinstance(args[0], Class) and isinstance(made, Function) else made
            why = whole(follower, made)
            if why or prefix is not None and not isinstance(prefix, str):
                follower.taint(self, why or "a name is computed")
                return Unknown()
            real = stub(follower, made) if isinstance(made, Function) else made
            self.entries += of_fields(Rules(), real, None, prefix + "." if prefix else "")
            return Unknown()
        if name == "add_argument":
            if kwargs.get("action") == "config" or isinstance(kwargs.get("action"), Symbol) and kwargs["action"].__name__ in ("ActionConfigFile",):
                return Unknown()
            action = self.argument(follower, args, kwargs)
            if not isinstance(action, Unknown):
                self.entries.append(of_action(self.real, action, ()))
            return Unknown()
        if name == "parse_args" and not args:
            return follower.read(self, report, "jsonargparse", self.entries)
        follower.taint(self, "`%s` changes it" % name)
        return Unknown()


@models("jsonargparse.ArgumentParser")
def jsonargparse_parser(follower, args, kwargs):
    return JsonParser()


@models("*.LightningCLI")
def lightning_cli(follower, args, kwargs):
    owner, entries = Model(), []
    names = dict(zip(("model", "data"), args))
    names.update({short: kwargs[key] for short, key in (("model", "model_class"), ("data", "datamodule_class")) if key in kwargs})
    if kwargs.get("run") is not False and not any(one in ARGUMENTS for one in ("fit", "validate", "test", "predict")):
        return follower.read(owner, lambda: report("lightning", [], commands=["fit", "validate", "test", "predict"]))
    for prefix, kind in names.items():
        made = kind.find("__init__") if isinstance(kind, Class) else None
        if not isinstance(made, Function) or whole(follower, made.with_self(None)):
            follower.taint(owner, "the arguments of `%s` are not in this file" % prefix)
            continue
        entries += of_fields(Rules(), stub(follower, made.with_self(None)), None, prefix + ".")
    entries.insert(0, parameter("seed_everything", "value", None, "int", help="Sets the seed."))
    return follower.read(owner, report, "lightning", entries)


# A configurator


@models("exec")
def exec_text(follower, args, kwargs):
    source = args[0] if args else None
    if not isinstance(source, str) or "argv" not in source or "globals()" not in source:
        return Unknown()
    owner = Model()
    for name, value in follower.module.names.items():
        if isinstance(value, Unknown) and value.why != IS_LIST and not name.startswith("_"):
            follower.taint(owner, "`%s` is computed" % name)
    return follower.read(owner, lambda: report("configurator", list(of_globals(follower.module.names))))


class File(Model):
    def __init__(self, path):
        self.path = path

    def method(self, follower, name, args, kwargs):
        if name == "read" and not args:
            return follower.attempt(lambda: pathlib.Path(self.path).read_text(), [], {})
        return Unknown()


@models("open")
def open_file(follower, args, kwargs):
    """A small file of Python, which may change the script's variables."""
    is_code = args and isinstance(args[0], str) and args[0].endswith(".py") and set(args[1:]) <= {"r"}
    return File(args[0]) if is_code else Unknown()
