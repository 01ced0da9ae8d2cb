# Continues `models.py`: packages that read the fields of dataclasses, or the arguments of functions.


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
        if is_open(dict(field.metadata)):
            return "a name of `%s` is computed" % field.name
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
        if getattr(rules, "positional", False):
            entries += [dict(one, style="position") if one["required"] else one for one in of_fields(rules, real, default)]
            continue
        entries += list(of_fields(rules, real, default))
    names = [entry["name"] for entry in entries]
    if len(names) != len(set(names)):
        follower.taint(owner, "two fields have the same name")
    return follower.read(owner, report, source, entries)


@models("tyro.cli")
def tyro_cli(follower, args, kwargs):
    default = kwargs.get("default")
    commands = commands_of_union(args[0]) if args else {}
    if commands and "default" not in kwargs:
        return tyro_command(follower, commands)
    if not args or set(kwargs) - {"default", "description", "prog"} or isinstance(default, Symbol):
        return Unknown()
    return read_fields(follower, "tyro", Rules("pair"), args[:1], default)


@models("tyro.conf.arg")
def tyro_arg(follower, args, kwargs):
    if set(kwargs) - {"name", "help", "aliases", "metavar"} or is_open(kwargs):
        return Unknown()
    return types.SimpleNamespace(name=kwargs.get("name"), help=kwargs.get("help"))


@models("tyro.extras.subcommand_cli_from_dict")
def tyro_commands(follower, args, kwargs):
    known = args[0] if args else kwargs.get("subcommands")
    if not isinstance(known, dict) or is_open(known):
        return Unknown()
    return tyro_command(follower, {name.replace("_", "-"): kind for name, kind in known.items() if isinstance(name, str)})


def tyro_command(follower, commands):
    chosen = next((argument for argument in ARGUMENTS if argument in commands), None)
    if chosen is None:
        return follower.read(Model(), lambda: report("tyro", [], commands=[text(name) for name in list(commands)[:50]]))
    return read_fields(follower, "tyro", Rules("pair"), [commands[chosen]])


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
    kind, default = kwargs.get("config_class", args[0] if args else None), kwargs.get("default")
    parser = simple_parser(follower, [], {})
    if default is not None and type(default) not in follower.about:
        follower.taint(parser, "the defaults are computed")
        default = None
    parser.classes.append((kind, default))
    return follower.read(parser, parser.describe, follower) if isinstance(kind, type) and kind in follower.about else Unknown()


class SimpleParser(Parser):
    """A parser of simple_parsing, which also takes dataclasses."""

    def __init__(self, real):
        super().__init__(real)
        self.classes = []

    def method(self, follower, name, args, kwargs):
        if name == "add_arguments":
            default = kwargs.get("default")
            self.classes.append((args[0] if args else kwargs.get("dataclass"), default if type(default) in follower.about else None))
            if default is not None and type(default) not in follower.about:
                follower.taint(self, "the defaults are computed")
            return Unknown()
        if name in ("parse_args", "parse_known_args") and not args and not kwargs:
            return follower.read(self, self.describe, follower)
        return super().method(follower, name, args, kwargs)

    def describe(self, follower):
        entries = [of_action(self.real, action, ()) for action in self.real._actions]
        rules = Rules(join=False, docs=lambda kind, name: follower.about[kind].helps.get(name))
        groups = []
        for kind, default in self.classes:
            why = whole(follower, kind)
            if why:
                follower.taint(self, why)
            else:
                # Fields of inner classes follow those of the outer ones.
                found = [with_choices(kind, entry) for entry in of_fields(Rules(docs=rules.docs), kind, default)]
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


@models("simple_parsing.list_field", "simple_parsing.helpers.list_field")
def simple_list(follower, args, kwargs):
    return Unknown() if kwargs else dataclasses.field(default_factory=lambda: list(args))


@models("simple_parsing.mutable_field", "simple_parsing.helpers.mutable_field", "simple_parsing.subgroups")
def simple_mutable(follower, args, kwargs):
    made = follower.callable(args[0]) if len(args) == 1 and not kwargs else None
    return dataclasses.field(default_factory=made) if callable(made) else Unknown()


@models("simple_parsing.field", "simple_parsing.helpers.field")
def simple_field(follower, args, kwargs):
    known = {key: follower.callable(kwargs[key]) for key in ("default", "default_factory", "init") if key in kwargs}
    if args:
        known["default"] = args[0]
    named = set(kwargs) & {"alias", "action", "type", "nargs", "cmd", "positional", "subgroups", "to_dict"}
    return Unknown() if named or is_open(known) else dataclasses.field(**known, metadata={"choices": kwargs["choices"]} if "choices" in kwargs else None)


def with_choices(kind, entry):
    """An entry with the choices that simple_parsing's `choice` has given its field."""
    for name in entry["name"].split("."):
        field = next((field for field in dataclasses.fields(kind) if field.name == name), None) if dataclasses.is_dataclass(kind) else None
        kind = field.type if field is not None else None
    choices = field.metadata.get("choices") if field is not None else None
    return dict(entry, choices=[plain(choice) for choice in choices]) if choices else entry


@models("transformers.HfArgumentParser")
def hf_parser(follower, args, kwargs):
    kinds = args[0] if args else kwargs.get("dataclass_types")
    return HuggingFaceParser(list(kinds) if isinstance(kinds, (list, tuple)) else [kinds])


# What the arguments of the trainer have in all versions, as far as people vary it.
TRAINING = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 5e-5, "weight_decay": 0.0}
TRAINING.update({"max_grad_norm": 1.0, "num_train_epochs": 3.0, "max_steps": -1, "warmup_steps": 0, "seed": 42})


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
            if isinstance(kind, Symbol) and kind.path.endswith("TrainingArguments"):
                entries += [parameter(name, "value", value, type(value).__name__) for name, value in TRAINING.items()]
            if not isinstance(kind, type) or kind not in follower.about:
                continue
            for entry in of_fields(Rules(enum="value"), kind):
                field = next(field for field in dataclasses.fields(kind) if field.name == entry["name"])
                if isinstance(field.metadata.get("help"), str):
                    entry["help"] = text(field.metadata["help"])
                if isinstance(field.metadata.get("choices"), (list, tuple)):
                    entry = with_choices(kind, entry)
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
    alias = next((kwargs[key] for key in ("validation_alias", "alias") if key in kwargs), None)
    bounds = {key: kwargs[key] for key in ("ge", "gt", "le", "lt") if isinstance(kwargs.get(key), (int, float))}
    known["metadata"] = {"bounds": types.SimpleNamespace(**bounds)} if bounds else {}
    if alias is not None:
        known["metadata"]["alias"] = alias if isinstance(alias, str) else Unknown()
    if "default_factory" in known:
        known["default_factory"] = follower.callable(known["default_factory"])
    return dataclasses.field(**known)


@models("pydantic_settings.SettingsConfigDict", "pydantic.ConfigDict")
def pydantic_config(follower, args, kwargs):
    return dict(kwargs)


def config_of(kind):
    config = getattr(kind, "model_config", {})
    return config if isinstance(config, dict) else {}


@models("BaseSettings")
def pydantic_settings(follower, kind, args, kwargs):
    config = config_of(kind)
    if kwargs.get("_cli_parse_args") or config.get("cli_parse_args"):
        return read_fields(follower, "pydantic", rules_of_pydantic(config), [kind])
    if not whole(follower, kind):
        prefix = config.get("env_prefix", "")
        for entry in of_fields(Rules(enum="value"), kind):
            if "." not in entry["name"] and entry["style"] in ("value", "truth"):
                name = (prefix + entry["name"]).upper()
                follower.variables[name] = dict(entry, name=name, style="value")
    return Unknown()


@models("pydantic_settings.CliApp.run")
def pydantic_run(follower, args, kwargs):
    kind = args[0] if args else kwargs.get("model_cls")
    is_settings = kind in follower.about and any(path.endswith(".BaseSettings") for path in follower.about[kind].paths)
    return read_fields(follower, "pydantic", rules_of_pydantic(config_of(kind) if is_settings else None), [kind])
