# Continues `models.py`: click and typer.


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

    def __init__(self, name, choices=None, least=None, most=None):
        self.name, self.choices, self.min, self.max = name, choices, least, most


@models("click.Choice")
def click_choice(follower, args, kwargs):
    choices = args[0] if args else kwargs.get("choices")
    choices = list(choices) if isinstance(choices, (list, tuple, dict, enum.EnumMeta)) or type(choices).__name__ == "dict_keys" else Unknown()
    return Unknown() if is_open(choices) else Kind("choice", [one.name if isinstance(one, enum.Enum) else one for one in choices])


@models("click.IntRange", "click.FloatRange")
def click_range(follower, args, kwargs):
    given = dict(zip(("min", "max"), args), **kwargs)
    return Kind("range", None, given.get("min"), given.get("max"))


@models("click.Path", "click.File", "click.DateTime")
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
    if found.count:
        found.default = 0 if default is None else default
        shown.min = 0 if shown.min is None else shown.min
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
    hint = str if isinstance(hint, Symbol) and hint.path.startswith("typer.File") else hint
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
    entry.update(required=missing, enum="value", least=more.get("min"), most=more.get("max"))
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
    if typing.get_origin(hint) is list:
        return parameter(long, "repeat", **entry)
    if more.get("count"):
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
