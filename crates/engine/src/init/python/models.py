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
    parents = [one.model if isinstance(one, Instance) else one for one in parents] if isinstance(parents, (list, tuple)) else parents
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


@models("class argparse.ArgumentParser")
def argparse_class(follower, instance, args, kwargs):
    """A class of the script that derives from the parser."""
    instance.model = argparse_parser(follower, args, kwargs)


@models("argparse.FileType")
def argparse_file(follower, args, kwargs):
    import argparse

    return argparse.FileType(*args)
