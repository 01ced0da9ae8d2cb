# Continues `models.py`: other packages that read parameters: sweep, Fire, absl, ml_collections, optparse, docopt, OmegaConf,
# jsonargparse and Lightning, and a configurator.


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
            commands = {name: value for name, value in sorted(kind.members().items()) if isinstance(value, Function) and not name.startswith("_")}
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
        flags.entries[given["name"]] = of_absl(given["name"], kind, default, choices, help, given.get("required") is True, note, (given.get("lower_bound"), given.get("upper_bound")))
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


@models("ml_collections.config_dict.placeholder", "ml_collections.config_dict.config_dict.placeholder")
def ml_placeholder(follower, args, kwargs):
    return None


@models("ml_collections.FieldReference", "ml_collections.config_dict.FieldReference")
def ml_reference(follower, args, kwargs):
    return args[0] if args else Unknown()


def define_config(follower, name, config):
    if isinstance(config, Configuration) and id(config) not in follower.partial and not is_open(config.plain()):
        for entry in of_config(name, config.plain()):
            follower.flags.entries[entry["name"]] = entry
    else:
        follower.taint(follower.flags, "the configuration is computed")


def configurations():
    """Files of the current folder that define a configuration of ml_collections, the default one first."""
    files = []
    for folder in ("configs", "config", "."):
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))[:50]
        except OSError:
            continue
        for name in names:
            path = os.path.normpath(os.path.join(folder, name))
            try:
                with open(path, encoding="utf-8") as file:
                    if "\ndef get_config(" in file.read(1 << 20):
                        files.append(path)
            except (OSError, ValueError):
                pass
    return sorted(files, key=lambda path: os.path.basename(path) not in ("default.py", "config.py"))


@models("ml_collections.config_flags.DEFINE_config_file", "ml_collections.config_flags.config_flags.DEFINE_config_file")
def ml_file(follower, args, kwargs):
    given = dict(zip(("name", "default", "help_string"), args))
    given.update(kwargs)
    name, default = given.get("name"), given.get("default")
    if not isinstance(name, str) or is_open(default) or isinstance(default, Symbol):
        follower.taint(follower.flags, "the configuration has a computed name")
        return Unknown()
    help = given.get("help_string", "path to config file.")
    chosen = next((argument.partition("=")[2] for argument in ARGUMENTS if argument.startswith("--%s=" % name)), default)
    # Without a default the file must be given: the usual ones are in the folder `configs`.
    files = configurations() if chosen is None else []
    chosen = files[0] if files else chosen
    entry = parameter(name, "value", default, "config", files, help=help if isinstance(help, str) else None, required=bool(files))
    follower.flags.entries[name] = entry
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
        if name == "add_option" and len(args) == 1 and isinstance(args[0], MadeOption):
            self.option(follower, args[0].args, args[0].kwargs)
        elif name == "add_options" and args and isinstance(args[0], (list, tuple)) and all(isinstance(one, MadeOption) for one in args[0]):
            for one in args[0]:
                self.option(follower, one.args, one.kwargs)
        elif name == "add_option":
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

    known = {"conflict_handler": kwargs["conflict_handler"]} if kwargs.get("conflict_handler") == "resolve" else {}
    parser = OptionParser(optparse.OptionParser(**known))
    options = kwargs.get("option_list", args[1] if len(args) > 1 else None) or []
    if not isinstance(options, (list, tuple)) or is_open(options) or "**" in kwargs or "option_class" in kwargs:
        follower.taint(parser, "its list of options is computed")
        return parser
    for option in options:
        if isinstance(option, MadeOption):
            parser.option(follower, option.args, option.kwargs)
        else:
            follower.taint(parser, "an option is computed")
    return parser


@models("class optparse.OptionParser")
def optparse_class(follower, instance, args, kwargs):
    """A class of the script that derives from the parser."""
    instance.model = optparse_parser(follower, args, kwargs)


class MadeOption:
    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs


@models("optparse.make_option", "optparse.Option")
def optparse_option(follower, args, kwargs):
    return MadeOption(args, kwargs)


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


class FromCli(Configuration):
    """The command line as OmegaConf has it."""


@models("omegaconf.OmegaConf.from_cli")
def omegaconf_cli(follower, args, kwargs):
    pairs = (argument.partition("=") for argument in follower.arguments)
    return Unknown() if args and args[0] != follower.arguments else FromCli({name: number(value) for name, _, value in pairs})


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
    return Configuration(dataclasses.asdict(made))


@models("omegaconf.OmegaConf.load")
def omegaconf_load(follower, args, kwargs):
    try:
        found = from_yaml(file_of(args[0]))
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
    if any(id(other) in follower.partial for other in others):
        follower.taint(owner, "a configuration is computed")
    if len(others) == len(args):
        return Configuration(values) if id(owner) not in follower.partial else Unknown()
    return follower.read(owner, report, "omegaconf", [of_hydra(name, plain_value) for name, plain_value in leaves(values)])


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
    rules = Rules()
    rules.positional = kwargs.get("as_positional", True) is not False
    return read_fields(follower, "jsonargparse", rules, [components])


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


# What the trainer of Lightning has in all its versions, as far as people vary it.
TRAINER = {"max_epochs": "int", "max_steps": "int", "gradient_clip_val": "float", "accumulate_grad_batches": "int", "precision": "str"}
TRAINER.update({"limit_train_batches": "float", "limit_val_batches": "float", "accelerator": "str", "devices": "int", "num_nodes": "int"})


@models("*.LightningCLI")
def lightning_cli(follower, args, kwargs, extended=False):
    owner, entries = Model(), []
    names = dict(zip(("model", "data"), args))
    names.update({short: kwargs[key] for short, key in (("model", "model_class"), ("data", "datamodule_class")) if key in kwargs})
    if kwargs.get("run") is not False and not any(one in ARGUMENTS for one in ("fit", "validate", "test", "predict")):
        return follower.read(owner, lambda: report("lightning", [], commands=["fit", "validate", "test", "predict"]))
    if any(key.startswith("subclass_mode") for key in kwargs) or not names:
        follower.taint(owner, "the classes are chosen on the command line")
    for prefix, kind in names.items():
        made = kind.find("__init__") if isinstance(kind, Class) else None
        if not isinstance(made, Function) or whole(follower, made.with_self(None)):
            follower.taint(owner, "the arguments of `%s` are not in this file" % prefix)
            continue
        entries += of_fields(Rules(), stub(follower, made.with_self(None)), None, prefix + ".")
    if extended:
        follower.taint(owner, "its class adds arguments")
    first = [parameter("seed_everything", "value", None, "int", help="Sets the seed.")]
    first += [parameter("trainer." + name, "value", None, kind) for name, kind in TRAINER.items()]
    return follower.read(owner, report, "lightning", first + entries)


@models("class *.LightningCLI")
def lightning_class(follower, instance, args, kwargs):
    """A class of the script that derives from the command line of Lightning."""
    lightning_cli(follower, args, kwargs, extended=instance.kind.find("add_arguments_to_parser") is not None)


# A configurator


@models("exec")
def exec_text(follower, args, kwargs):
    source = args[0] if args else None
    source = source.read() if isinstance(source, File) else source
    if not isinstance(source, str) or "argv" not in source or "globals()" not in source:
        return Unknown()
    owner = Model()
    for name, value in follower.module.names.items():
        if isinstance(value, Unknown) and value.why != IS_LIST and not name.startswith("_"):
            follower.taint(owner, "`%s` is computed" % name)
    return follower.read(owner, lambda: report("configurator", list(of_globals(follower.module.names))))


@models("compile")
def compile_text(follower, args, kwargs):
    return args[0] if args and isinstance(args[0], str) else Unknown()


class File(Model):
    def __init__(self, path):
        self.path = path

    def read(self):
        try:
            return file_of(self.path)
        except (OSError, ValueError):
            return None

    def method(self, follower, name, args, kwargs):
        if name == "read" and not args:
            return follower.attempt(lambda: file_of(self.path), [], {})
        return Unknown()


@models("open")
def open_file(follower, args, kwargs):
    """A small file of Python, which may change the script's variables."""
    is_code = args and isinstance(args[0], str) and args[0].endswith(".py") and set(args[1:]) <= {"r"}
    return File(args[0]) if is_code else Unknown()
