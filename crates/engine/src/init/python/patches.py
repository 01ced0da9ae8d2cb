# Continues `probe.py`: changes packages so that they show the parameters that they are to read.


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


def patch_tyro(tyro):
    described = getattr(getattr(tyro, "_docstrings", None), "get_field_docstring", None)

    def docs(owner, name):
        for extra in ((), (frozenset(),)):
            try:
                return described(owner, name, *extra)
            except TypeError:
                pass

    def chosen(commands):
        name = next((argument for argument in ARGUMENTS if argument in commands), None)
        if name is None:
            report("tyro", [], commands=[text(name) for name in list(commands)[:50]])
        cli(commands[name])

    def cli(f, *, default=None, **more):
        commands = commands_of_union(f)
        if commands and default is None:
            chosen(commands)
        default = None if type(default).__name__.upper().startswith("MISSING") else default
        report("tyro", list(of_fields(Rules("pair", docs=docs), f, default)))

    tyro.cli = cli
    if hasattr(tyro, "extras"):
        tyro.extras.subcommand_cli_from_dict = lambda known, **more: chosen({name.replace("_", "-"): kind for name, kind in known.items()})


def patch_draccus(draccus):
    import inspect

    def parse(config_class, *args, **more):
        report("draccus", list(of_fields(Rules(), config_class)))

    def wrap(*args, **more):
        def decorate(function):
            def call(*args, **more):
                hint = next(iter(inspect.signature(function, eval_str=True).parameters.values())).annotation
                parse(hint)

            return call

        return decorate

    draccus.parse, draccus.wrap = parse, wrap


def patch_pydantic(settings):
    """Reads the settings as soon as they are made, if they come from the command line."""
    original = settings.BaseSettings.__init__

    def made(self, *args, **more):
        if patches["on"] and (more.get("_cli_parse_args") or self.model_config.get("cli_parse_args")):
            report("pydantic", list(of_fields(rules_of_pydantic(self.model_config), type(self))))
        original(self, *args, **more)

    def run(model_cls, *args, **more):
        report("pydantic", list(of_fields(rules_of_pydantic(model_cls.model_config if issubclass(model_cls, settings.BaseSettings) else None), model_cls)))

    settings.BaseSettings.__init__ = made
    if hasattr(settings, "CliApp"):
        settings.CliApp.run = staticmethod(run)


def patch_jsonargparse(module):
    """Reads the parser as soon as it is to parse the command line: its actions have the types."""
    import argparse

    def entries(parser):
        for action in parser._actions:
            hint = getattr(action, "_typehint", None) or action.type
            names = [name[2:] for name in action.option_strings if name.startswith("--")]
            is_plain = not type(action).__name__.startswith(("_Help", "_ActionHelp", "_ActionPrint", "_ActionConfig", "ActionConfigFile", "_ActionSub"))
            if not is_plain or action.help == argparse.SUPPRESS:
                continue
            if not names and action.option_strings or isinstance(action, argparse._StoreTrueAction):
                yield of_action(parser, action, ())
                continue
            default = action.default
            required = action.required or (not action.option_strings)
            for entry in of_field(Rules(), None, names[0] if names else action.dest, hint or str, default, required):
                yield entry if action.option_strings else dict(entry, style="position")

    def parse_args(self, args=None, *more, **named):
        if not patches["on"] or not (args is None or list(args) == sys.argv[1:]):
            return original(self, args, *more, **named)
        parser, arguments = self, [argument for argument in ARGUMENTS if not argument.startswith("-")]
        while True:
            commands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
            if not commands:
                break
            names = commands[0]._name_parser_map
            chosen = next((argument for argument in arguments if argument in names), None)
            if chosen is None:
                report("jsonargparse", [], commands=[text(name) for name in list(names)[:50]])
            parser = names[chosen]
        report("jsonargparse", list(entries(parser)))

    original = module.ArgumentParser.parse_args
    module.ArgumentParser.parse_args = parse_args


def patch_omegaconf(module):
    """Reads the configuration with which the command line is merged."""
    original = module.OmegaConf.merge
    made = module.OmegaConf.from_cli
    given = []

    def from_cli(*args):
        found = made(*args)
        given.append(found)
        return found

    def merge(*configs):
        if patches["on"] and any(one is config for one in configs for config in given):
            others = [config for config in configs if all(config is not one for one in given)]
            values = module.OmegaConf.to_container(original(*others), resolve=False) if others else {}
            report("omegaconf", [of_hydra(name, value) for name, value in leaves(values)])
        return original(*configs)

    module.OmegaConf.merge, module.OmegaConf.from_cli = staticmethod(merge), staticmethod(from_cli)


def patch_fire(fire):
    import inspect

    def show(component=None, command=None, name=None, serialize=None):
        methods = None
        if component is None:
            component = {name: value for name, value in vars(sys.modules["__main__"]).items() if inspect.isfunction(value) and value.__module__ == "__main__"}
        if inspect.isclass(component) or not callable(component) and not isinstance(component, dict):
            methods = {name: value for name, value in inspect.getmembers(component, callable) if not name.startswith("_")}
        commands = methods if methods is not None else component if isinstance(component, dict) else None
        owner = component
        if commands is not None:
            chosen = next((argument for argument in ARGUMENTS if argument in commands), None)
            if chosen is None:
                report("fire", [], commands=[text(name) for name in list(commands)[:50]])
            component = commands[chosen]
        kinds = inspect.Parameter
        found = [*inspect.signature(component).parameters.values()]
        found = found[1:] if inspect.isclass(owner) and found else found
        if inspect.isclass(owner) and owner.__init__ is not object.__init__:
            found += [one for one in list(inspect.signature(owner).parameters.values()) if one.name not in [other.name for other in found]]
        named = [one for one in found if one.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
        of_signature("fire", [(one.name, one.default is kinds.empty, one.default) for one in named])

    fire.Fire = show


def patch_absl(app):
    from absl import flags

    def is_own(name):
        """True for the script and the modules beside it."""
        path = getattr(sys.modules.get(name), "__file__", None)
        folder = os.path.dirname(os.path.realpath(SCRIPT)) + os.sep
        return name in (sys.argv[0], "__main__") or path is not None and os.path.realpath(path).startswith(folder)

    def run(main, argv=None, flags_parser=None):
        values, entries = flags.FLAGS, []
        found = [flag for name, known in values.flags_by_module_dict().items() if is_own(name) for flag in known]
        for flag in found:
            kind = type(flag).__name__
            if kind in ("_ConfigFlag", "_InlineConfigFlag"):
                path = None
                if "Inline" not in type(flag.parser).__name__:
                    path = (flag.default_as_str or "None").strip("'")
                    path = None if path == "None" else path
                    required = any("other than None" in one.message for one in flag.validators)
                    entries.append(parameter(flag.name, "value", path, "config", help=flag.help, required=required))
                    path = next((argument.partition("=")[2] for argument in ARGUMENTS if argument.startswith("--%s=" % flag.name)), path)
                try:
                    if path is not None:
                        flag.parse(path)
                    entries += of_config(flag.name, flag.value.to_dict()) if flag.value is not None else []
                except flags.Error:
                    pass
                continue
            kind = "multi" if kind.startswith("Multi") else flag.flag_type()
            kind = {"comma separated list of strings": "list", "whitespace separated list of strings": "spaceseplist", "string enum": "enum"}.get(kind, kind)
            choices = getattr(flag, "enum_values", None) or getattr(flag.parser, "enum_values", None)
            if getattr(flag.parser, "enum_class", None) is not None:
                kind, choices = "enum_class", [member.lower() for member in flag.parser.enum_class.__members__]
            default, bounds = flag.default, (getattr(flag.parser, "lower_bound", None), getattr(flag.parser, "upper_bound", None))
            if kind == "enum_class" and default is not None:
                default = default.name.lower()
            entries.append(of_absl(flag.name, kind, default, choices, flag.help, any("other than None" in one.message for one in flag.validators), None, bounds))
        report("absl", entries)

    def parse(self, argv, *args, **more):
        if patches["on"] and self is flags.FLAGS and list(argv) == sys.argv:
            run(None)
        return original(self, argv, *args, **more)

    original = flags.FlagValues.__call__
    app.run, flags.FlagValues.__call__ = run, parse


def patch_optparse(optparse):
    optparse.OptionParser.parse_args = lambda self, args=None, values=None: of_optparse(self)


def patch_docopt(module):
    module.docopt = lambda doc, *args, **more: of_docopt(doc)


def patch_sweep(module):
    def params(*_, **defaults):
        of_sweep(defaults)

    module.params = params


def patch_exec():
    """Reads the global variables as soon as the script executes a text that changes them by the command line."""
    original = builtins.exec

    def execute(source, globals=None, locals=None, **more):
        caller = sys._getframe(1)
        is_script = caller.f_code.co_filename == SCRIPT
        names = getattr(source, "co_names", ())
        is_configurator = "argv" in source and "globals()" in source if isinstance(source, str) else "argv" in names and "globals" in names
        if is_script and patches["on"] and is_configurator:
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
    "draccus": patch_draccus,
    "pydantic_settings": patch_pydantic,
    "jsonargparse": patch_jsonargparse,
    "omegaconf": patch_omegaconf,
    "fire": patch_fire,
    "absl.flags": lambda module: patch_absl(__import__("absl.app").app),
    "optparse": patch_optparse,
    "docopt": patch_docopt,
}


def watch_imports():
    """Changes a package as soon as it is imported, before the script has its names."""
    original = builtins.__import__

    def imported(name, *args, **kwargs):
        module = original(name, *args, **kwargs)
        for known in [name for name in patches if name != "on" and name in sys.modules]:
            loaded = sys.modules[known]
            if not getattr(getattr(loaded, "__spec__", None), "_initializing", False):
                patches.pop(known, lambda module: None)(loaded)
        return module

    builtins.__import__ = imported


