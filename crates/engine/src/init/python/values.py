# Continues `probe.py`: the values that a syntax tree shows. What it does not show is `Unknown`.

import ast
import dataclasses
import enum
import math
import operator
import pathlib
import re
import typing

# Most nodes that are followed, half of them in modules of the project; deepest calls, longest value that is computed, and most
# modules, which together have at most so many bytes.
MAX_NODES, MAX_DEPTH, MAX_LENGTH, MAX_MODULES, MAX_BYTES = 300_000, 30, 10_000, 50, 2_000_000


class Unknown:
    """A value that the tree does not show. `kind` is its type, if that is known."""

    def __init__(self, why="it is computed", kind=None):
        self.why, self.kind = why, kind

    def __repr__(self):
        return "…"


class Symbol:
    """A name of a package, which is not imported: `torch.cuda`."""

    def __init__(self, path):
        self.path = path
        self.__name__ = path.rpartition(".")[2]

    def __call__(self, *args):
        if self.path == "ast.literal_eval":
            return ast.literal_eval(*args)
        raise TypeError("it is not imported")

    def __repr__(self):
        return self.path


class Function:
    """A function of the script. `params` are the options that click's decorators have added."""

    def __init__(self, node, scope, defaults, owner=None):
        self.node, self.scope, self.defaults, self.owner = node, scope, defaults, owner
        self.name = self.__name__ = getattr(node, "name", "<lambda>")
        self.params, self.bound, self.attributes, self.kind = [], None, {}, ""

    def with_self(self, instance):
        bound = Function(self.node, self.scope, self.defaults, self.owner)
        bound.bound = (instance,)
        return bound

    def of(self, follower, instance, kind):
        """The function as an attribute of an instance, or of its class if there is none."""
        if self.kind == "property":
            return Unknown() if instance is None else follower.call(self.with_self(instance), [], {}, None)
        owner = kind if self.kind == "classmethod" else instance
        return self if owner is None or self.kind == "staticmethod" else self.with_self(owner)


class Class:
    """A class of the script that is neither a dataclass nor an enumeration: these are real classes."""

    def __init__(self, name, bases, values, annotations, node):
        self.name = self.__name__ = name
        self.bases, self.values, self.annotations, self.node = bases, values, annotations, node

    def find(self, name):
        if name in self.values:
            return self.values[name]
        for base in self.bases:
            found = base.find(name) if isinstance(base, Class) else Unknown() if isinstance(base, Symbol) else None
            if found is not None:
                return found
        return None

    def members(self):
        """Its values, with those of the classes above it."""
        found = {}
        for base in reversed(self.bases):
            found.update(base.members() if isinstance(base, Class) else {})
        return {**found, **self.values}

    def find_class(self, node):
        """The class in which a function is written."""
        if any(isinstance(value, Function) and value.node is node for value in self.values.values()):
            return self
        return next(filter(None, (base.find_class(node) for base in self.bases if isinstance(base, Class))), None)

    def ancestors(self):
        """The paths of the classes of packages that it derives from."""
        for base in self.bases:
            if isinstance(base, Symbol):
                yield base.path
            elif isinstance(base, Class):
                yield from base.ancestors()


class Instance:
    """An instance of a class of the script. `model` is what a package knows of it, if the class derives from one of a package."""

    def __init__(self, kind):
        self.kind, self.attributes, self.model = kind, {}, None


class Super:
    """`super()`: the attributes of the classes above one."""

    def __init__(self, instance, kinds):
        self.instance, self.kinds = instance, kinds


class Module:
    """A module of the script's folder."""

    def __init__(self, names):
        self.names = names


class About:
    """Facts of a real class: its methods, the descriptions of its fields, and whether the tree shows all of it."""

    def __init__(self, methods, helps, is_whole, paths):
        self.methods, self.helps, self.is_whole, self.paths = methods, helps, is_whole, paths


class Scope:
    def __init__(self, parent=None, names=None):
        self.parent, self.names, self.globals = parent, names if names is not None else {}, set()

    def root(self):
        return self if self.parent is None else self.parent.root()

    def get(self, name):
        scope = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return BUILTINS.get(name, Unknown("`%s` is not known" % name))


class Answered(BaseException):
    """The script has read its parameters."""


class Returned(BaseException):
    pass


class Ended(BaseException):
    """The script has ended, or more of it is not followed."""


class Exhausted(Ended):
    """More nodes were followed than may be."""


class Raised(Exception):
    """The script has raised an exception."""


class Jump(BaseException):
    """`break` or `continue`."""


EMPTY = object()
IS_LIST = "it is a list that is computed"
PURE = [int, float, str, bool, list, tuple, dict, set, frozenset, len, min, max, sum, abs, round, sorted, reversed, zip, enumerate]
PURE += [range, any, all, repr, isinstance, complex, object, pathlib.Path, pathlib.PurePath]
BUILTINS = {kind.__name__: kind for kind in PURE if kind.__module__ == "builtins"}
BUILTINS.update(__name__="__main__", print=Symbol("print"), eval=eval, type=type, open=Symbol("open"), exec=Symbol("exec"))
BUILTINS.update(staticmethod=staticmethod, classmethod=classmethod, property=property)
BUILTINS.update(compile=Symbol("compile"))
BUILTINS.update(input=Symbol("input"), super=Symbol("super"), globals=Symbol("globals"), NotImplemented=NotImplemented)
BUILTINS.update({name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)})
# Packages whose names are the real ones, and what of them may be called.
REAL = {"typing": typing, "typing_extensions": typing, "enum": enum, "dataclasses": dataclasses, "math": math, "pathlib": pathlib}
CALLED = {dataclasses.field, dataclasses.asdict, dataclasses.replace, enum.auto, typing.cast, *PURE}
CALLED |= {function for function in vars(math).values() if callable(function)} - {math.factorial}
PATHS = {"join", "basename", "dirname", "expanduser", "abspath", "normpath", "splitext"}
BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Mod: operator.mod}
BINARY.update({ast.FloorDiv: operator.floordiv, ast.Pow: operator.pow, ast.BitOr: operator.or_, ast.BitAnd: operator.and_})
BINARY.update({ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitXor: operator.xor})
COMPARED = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt}
COMPARED.update({ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not})
COMPARED.update({ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b})
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert}
METHODS = (str, bytes, list, tuple, dict, set, frozenset, int, float, pathlib.PurePath)
# Constants of packages.
CONSTANTS = {"argparse.SUPPRESS": "==SUPPRESS==", "argparse.REMAINDER": "...", "argparse.PARSER": "A...", "argparse.OPTIONAL": "?"}
CONSTANTS.update({"argparse.ZERO_OR_MORE": "*", "argparse.ONE_OR_MORE": "+", "os.sep": "/", "optparse.SUPPRESS_HELP": "SUPPRESSHELP", "sys.platform": "linux"})
CONSTANTS["sys.version_info"] = sys.version_info
CONSTANTS.update({"omegaconf.MISSING": "???", "string.ascii_lowercase": "abcdefghijklmnopqrstuvwxyz"})
# Methods of paths that look at the disk.
LOOKS = {name for name in dir(pathlib.Path) if name not in dir(pathlib.PurePath)}
# Decorators after which a function is called as without them.
KEEPERS = {"record", "pass_context", "pass_obj", "no_grad", "inference_mode", "cache", "lru_cache", "staticmethod", "wraps", "enable_grad"}
# What the models of packages do when their functions are called, by their paths.
MODELS = {}


def models(*paths):
    def add(function):
        MODELS.update({path: function for path in paths})
        return function

    return add


def is_open(value, depth=0):
    """True if a part of the value is not known."""
    if isinstance(value, (list, tuple, set, frozenset)) and depth < 5:
        return any(is_open(item, depth + 1) for item in value)
    if isinstance(value, dict) and depth < 5:
        return any(is_open(item, depth + 1) for pair in value.items() for item in pair)
    return isinstance(value, Unknown)


def is_pure(value):
    """True for values of Python's own types, and for known ones of which nothing but their identity is used."""
    return not is_open(value) and not isinstance(value, (Symbol, Function, Class, Instance, Module))


def assigned(nodes):
    """The names that statements give values to, without those of inner functions."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, ast.Lambda):
            yield from assigned(ast.iter_child_nodes(node))


class Model:
    """An object of a package, of which this program knows what it does."""

    def method(self, follower, name, args, kwargs):
        follower.leak([*args, *kwargs.values()])
        return Unknown()

    def call(self, follower, args, kwargs):
        return Unknown()


class Method(Model):
    """A method with its object."""

    def __init__(self, function, owner, name):
        self.function, self.owner, self.name = function, owner, name

    def call(self, follower, args, kwargs):
        if isinstance(self.owner, Model):
            return self.owner.method(follower, self.name, args, kwargs)
        return follower.attempt(self.function, args, kwargs)


class Dataclass(Model):
    """`dataclass(frozen=True)`."""

    def __init__(self, options):
        self.options = options


class Configuration(Model):
    """A configuration with attributes: that of ml_collections, and the values of OmegaConf."""

    def __init__(self, values=None):
        self.values = {}
        for name, value in (values or {}).items():
            self.values[name] = Configuration(value) if isinstance(value, dict) else value

    def attribute(self, name):
        return self.values.get(name, Unknown())

    def method(self, follower, name, args, kwargs):
        if name in ("update", "merge_with") and all(isinstance(one, (dict, Configuration)) for one in args) and "**" not in kwargs:
            for one in [*args, kwargs]:
                self.values = Configuration(merged(self.plain(), one.plain() if isinstance(one, Configuration) else one)).values
        elif name in ("get", "get_ref", "get_oneway_ref") and args and isinstance(args[0], str):
            return self.values.get(args[0], args[1] if len(args) > 1 else None)
        elif name in ("to_dict", "as_dict"):
            return self.plain()
        elif name in ("items", "keys", "values") and not args:
            return list(getattr(self.values, name)())
        elif name not in ("lock", "unlock", "unlocked", "freeze", "copy", "to_yaml", "to_json", "is_locked"):
            # What it does to the values is not known.
            self.values["?"] = Unknown()
        return Unknown()

    def plain(self):
        return {name: value.plain() if isinstance(value, Configuration) else value for name, value in self.values.items()}


def merged(first, second):
    found = dict(first)
    for name, value in second.items():
        if value == "???" and name in found:
            continue
        found[name] = merged(found[name], value) if isinstance(value, dict) and isinstance(found.get(name), dict) else value
    return found
