# Continues `probe.py`: follows the syntax tree of a script, without running it. What the tree does not show is `Unknown`; a branch
# that depends on it is followed, and what it changes is `Unknown` afterwards.

import ast
import dataclasses
import enum
import math
import operator
import pathlib
import typing

# Most nodes that are followed, deepest calls, and longest value that is computed.
MAX_NODES, MAX_DEPTH, MAX_LENGTH = 300_000, 30, 10_000


class Unknown:
    """A value that the tree does not show."""

    def __init__(self, why="it is computed"):
        self.why = why

    def __repr__(self):
        return "…"


class Symbol:
    """A name of a package, which is not imported: `torch.cuda`."""

    def __init__(self, path):
        self.path = path
        self.__name__ = path.rpartition(".")[2]

    def __call__(self, *_):
        raise TypeError("it is not imported")

    def __repr__(self):
        return self.path


class Function:
    """A function of the script. `params` are the options that click's decorators have added."""

    def __init__(self, node, scope, defaults, owner=None):
        self.node, self.scope, self.defaults, self.owner = node, scope, defaults, owner
        self.name = self.__name__ = getattr(node, "name", "<lambda>")
        self.params, self.bound, self.attributes = [], None, {}

    def with_self(self, instance):
        bound = Function(self.node, self.scope, self.defaults, self.owner)
        bound.bound = (instance,)
        return bound


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

    def ancestors(self):
        """The paths of the classes of packages that it derives from."""
        for base in self.bases:
            if isinstance(base, Symbol):
                yield base.path
            elif isinstance(base, Class):
                yield from base.ancestors()


class Instance:
    def __init__(self, kind):
        self.kind, self.attributes = kind, {}


class About:
    """Facts of a real class: its methods, the descriptions of its fields, and whether the tree shows all of it."""

    def __init__(self, methods, helps, is_whole, paths):
        self.methods, self.helps, self.is_whole, self.paths = methods, helps, is_whole, paths


class Scope:
    def __init__(self, parent=None, names=None):
        self.parent, self.names, self.globals = parent, names if names is not None else {}, set()

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


class Raised(Exception):
    """The script has raised an exception."""


class Jump(BaseException):
    """`break` or `continue`."""


EMPTY = object()
IS_LIST = "it is a list that is computed"
PURE = [int, float, str, bool, list, tuple, dict, set, frozenset, len, min, max, sum, abs, round, sorted, reversed, zip, enumerate]
PURE += [range, any, all, repr, isinstance, hasattr, getattr, bytes, complex, object, pathlib.Path, pathlib.PurePath]
BUILTINS = {kind.__name__: kind for kind in PURE if kind.__module__ == "builtins"}
BUILTINS.update(__name__="__main__", print=Symbol("print"), eval=eval, type=type, open=Symbol("open"), exec=Symbol("exec"))
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
    return not is_open(value) and not isinstance(value, (Symbol, Function, Class, Instance))


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


class Follower:
    """Follows a script. `parts` are parsers of which the tree shows a part only, each with the reason."""

    def __init__(self, path, arguments, source=None):
        self.path, self.arguments = path, arguments
        self.text = pathlib.Path(path).read_bytes() if source is None else source.encode()
        self.tree = ast.parse(self.text, path)
        self.lines = self.text.decode("utf-8", "replace").splitlines()
        self.module = Scope(names={"__file__": path, "__doc__": ast.get_docstring(self.tree, clean=False)})
        self.unsure, self.nodes, self.depth = 0, 0, 0
        self.about, self.imported, self.partial, self.candidates = {}, set(), {}, []

    def follow(self):
        self.block(self.tree.body, self.module)

    def tick(self):
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise Ended()

    # Statements

    def block(self, nodes, scope):
        for node in nodes:
            self.tick()
            method = getattr(self, "do_" + type(node).__name__, None)
            if method is not None:
                method(node, scope)

    def branch(self, blocks, scope):
        """Follows blocks of which it is not known which are run."""
        self.unsure += 1
        before = dict(scope.names)
        try:
            for block in blocks:
                try:
                    self.block(block, scope)
                except Returned:
                    scope.maybe = True
                except (Jump, Raised, Ended):
                    pass
        finally:
            self.unsure -= 1
        for name in {name for block in blocks for name in assigned(block)}:
            if not (name in before and before[name] is scope.names.get(name)):
                scope.names[name] = Unknown()

    def do_Expr(self, node, scope):
        self.value(node.value, scope)

    def do_Import(self, node, scope):
        for alias in node.names:
            self.imported.add(alias.name)
            scope.names[alias.asname or alias.name.split(".")[0]] = Symbol(alias.name if alias.asname else alias.name.split(".")[0])

    def do_ImportFrom(self, node, scope):
        path = "." * node.level + (node.module or "")
        self.imported.add(path)
        for alias in node.names:
            self.imported.add(path + "." + alias.name)
            scope.names[alias.asname or alias.name] = self.real(Symbol(path + "." + alias.name))

    def do_Assign(self, node, scope):
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def do_AnnAssign(self, node, scope):
        if isinstance(node.target, ast.Name) and "__annotations__" in scope.names:
            scope.names["__annotations__"][node.target.id] = self.annotation(node.annotation, scope)
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def do_AugAssign(self, node, scope):
        target = node.target
        loaded = ast.copy_location(type(target)(**dict(ast.iter_fields(target), ctx=ast.Load())), target)
        self.assign(target, self.value(ast.copy_location(ast.BinOp(loaded, node.op, node.value), node), scope), scope)

    def do_Delete(self, node, scope):
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.names.pop(target.id, None)

    def do_Global(self, node, scope):
        scope.globals.update(node.names)

    def do_FunctionDef(self, node, scope):
        function = self.function(node, scope)
        for decorator in reversed(node.decorator_list):
            made = self.value(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
            if not (isinstance(made, Symbol) and made.__name__ in KEEPERS and made.path not in MODELS):
                function = self.call(self.value(decorator, scope), [function], {}, node)
        self.bind(node.name, function, scope)

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node, scope):
        self.bind(node.name, self.class_of(node, scope), scope)

    def do_If(self, node, scope):
        test = self.value(node.test, scope)
        if self.truth(test) is None:
            self.branch([node.body, node.orelse], scope)
        else:
            self.block(node.body if self.truth(test) else node.orelse, scope)

    def do_For(self, node, scope):
        items = self.value(node.iter, scope)
        if isinstance(items, dict):
            items = list(items)
        known = isinstance(items, (list, tuple, set, frozenset, range, str, zip, enumerate, reversed)) or type(items).__name__.startswith("dict_")
        if not known:
            self.assign(node.target, Unknown(), scope)
            self.branch([node.body], scope)
            return
        for item in items:
            self.tick()
            self.assign(node.target, item, scope)
            try:
                self.block(node.body, scope)
            except Jump as jump:
                if jump.args[0] == "break":
                    return
        self.block(node.orelse, scope)

    def do_While(self, node, scope):
        test = self.truth(self.value(node.test, scope))
        if test is not False:
            self.branch([node.body], scope)

    def do_Break(self, node, scope):
        raise Jump("break")

    def do_Continue(self, node, scope):
        raise Jump("continue")

    def do_Try(self, node, scope):
        before = dict(scope.names)
        try:
            self.block(node.body, scope)
        except Raised:
            self.branch([handler.body for handler in node.handlers], scope)
        else:
            for name in set(assigned(statement for handler in node.handlers for statement in handler.body)):
                value = scope.names.get(name)
                if name not in scope.names or value is before.get(name) or not isinstance(value, (Symbol, Function)):
                    scope.names[name] = Unknown()
            self.block(node.orelse, scope)
        self.block(node.finalbody, scope)

    do_TryStar = do_Try

    def do_With(self, node, scope):
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value if isinstance(value, Symbol) else Unknown(), scope)
        self.block(node.body, scope)

    do_AsyncWith = do_With

    def do_Return(self, node, scope):
        value = None if node.value is None else self.value(node.value, scope)
        raise Returned(Unknown() if getattr(scope, "maybe", False) else value)

    def do_Raise(self, node, scope):
        raised = None if node.exc is None else self.value(node.exc, scope)
        raise Ended() if raised is SystemExit or isinstance(raised, SystemExit) else Raised()

    def do_Match(self, node, scope):
        self.value(node.subject, scope)
        self.branch([case.body for case in node.cases], scope)

    def bind(self, name, value, scope):
        (self.module if name in scope.globals else scope).names[name] = value

    def assign(self, target, value, scope):
        if isinstance(target, ast.Name):
            self.bind(target.id, value, scope)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Unknown(), scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = list(value) if isinstance(value, (list, tuple)) else []
            fits = len(items) == len(target.elts) and not any(isinstance(one, ast.Starred) for one in target.elts)
            for index, one in enumerate(target.elts):
                self.assign(one, items[index] if fits else Unknown(), scope)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, scope)
            value = Unknown() if self.unsure else value
            if isinstance(owner, Instance):
                owner.attributes[target.attr] = value
            elif isinstance(owner, Class):
                owner.values[target.attr] = value
            elif isinstance(owner, Configuration):
                owner.values[target.attr] = value
        elif isinstance(target, ast.Subscript):
            owner, key = self.value(target.value, scope), self.value(target.slice, scope)
            if isinstance(owner, (dict, list)) and not is_open(key):
                try:
                    owner[key] = Unknown() if self.unsure else value
                except Exception:
                    pass
            elif isinstance(owner, Configuration) and isinstance(key, str):
                owner.values[key] = Unknown() if self.unsure else value

    # Functions and classes

    def function(self, node, scope):
        arguments = node.args
        named = [argument.arg for argument in getattr(arguments, "posonlyargs", []) + arguments.args]
        defaults = dict(zip(named[len(named) - len(arguments.defaults):], [self.value(one, scope) for one in arguments.defaults]))
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
            if default is not None:
                defaults[argument.arg] = self.value(default, scope)
        return Function(node, scope, defaults, scope.names.get("__qualname__"))

    def annotation(self, node, scope):
        """A type. A text is one that is written later."""
        try:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node = ast.parse(node.value.strip(), mode="eval").body
            return self.value(node, scope)
        except SyntaxError:
            return Unknown()

    def signature(self, function):
        """The arguments of a function without those that are bound: names, kinds, defaults and types."""
        import inspect

        arguments, kinds = function.node.args, inspect.Parameter
        groups = [(kinds.POSITIONAL_ONLY, getattr(arguments, "posonlyargs", [])), (kinds.POSITIONAL_OR_KEYWORD, arguments.args)]
        groups.append((kinds.KEYWORD_ONLY, arguments.kwonlyargs))
        found = []
        for kind, group in groups:
            for argument in group:
                hint = EMPTY if argument.annotation is None else self.annotation(argument.annotation, function.scope)
                found.append((argument.arg, kind, function.defaults.get(argument.arg, EMPTY), hint))
        return found[len(function.bound or ()):]

    def constructor(self, kind):
        """The arguments of a class, as `signature` has those of a function."""
        made = kind.find("__init__")
        return self.signature(made.with_self(None)) if isinstance(made, Function) else []

    def class_of(self, node, scope):
        bases = [self.value(base, scope) for base in node.bases]
        keywords = {one.arg: self.value(one.value, scope) for one in node.keywords if one.arg}
        inner = Scope(scope, {"__annotations__": {}, "__qualname__": node.name})
        self.block(node.body, inner)
        values = {name: value for name, value in inner.names.items() if name not in ("__qualname__", "__annotations__")}
        annotations = inner.names["__annotations__"]
        decorators = [self.value(decorator, scope) for decorator in node.decorator_list]
        methods = {name: value for name, value in values.items() if isinstance(value, Function)}
        plain_values = {name: value for name, value in values.items() if name not in methods}
        if any(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases):
            return self.enumeration(node.name, [base for base in bases if isinstance(base, type)], plain_values) or Unknown()
        paths = [path for base in bases for path in ([base.path] if isinstance(base, Symbol) else self.about[base].paths if base in self.about else [])]
        if any(path.endswith((".BaseSettings", "pydantic.BaseModel")) for path in paths):
            return self.dataclass(node, bases, plain_values, methods, annotations, {"kw_only": True}, paths)
        marks = [mark for mark in decorators if mark is dataclasses.dataclass or isinstance(mark, Dataclass)]
        if marks:
            options = marks[0].options if isinstance(marks[0], Dataclass) else {}
            found = self.dataclass(node, bases, plain_values, methods, annotations, options)
        else:
            found = Class(node.name, bases, values, annotations, node)
            found.keywords, found.helps = keywords, self.helps(node)
        for decorator in reversed(decorators):
            if decorator not in marks:
                found = self.call(decorator, [found], {}, node)
        return found

    def enumeration(self, name, bases, values):
        kind = type(bases[-1])
        try:
            names = kind.__prepare__(name, tuple(bases))
            for key, value in values.items():
                names[key] = value
            return kind(name, tuple(bases), names)
        except Exception:
            return None

    def dataclass(self, node, bases, values, methods, annotations, options, paths=()):
        known = [base for base in bases if isinstance(base, type)]
        is_whole = (paths or len(known) == len(bases)) and not any(is_open(hint) or isinstance(hint, Symbol) for hint in annotations.values())
        is_whole = is_whole and all(self.about[base].is_whole for base in known if base in self.about)
        hints = {name: typing.Any if isinstance(hint, (Unknown, Symbol, Class)) else hint for name, hint in annotations.items()}
        names = {**values, "__annotations__": hints, "__module__": "__main__"}
        for name in hints if paths else ():
            if name in values and getattr(type(values[name]), "__hash__", None) is None:
                names[name] = dataclasses.field(default_factory=lambda value=values[name]: value)
        try:
            made = dataclasses.dataclass(**options)(type(node.name, tuple(known), names))
        except Exception:
            return Unknown("`%s` cannot be read" % node.name)
        helps = {}
        for base in reversed(known):
            helps.update(self.about[base].helps if base in self.about else {})
        self.about[made] = About(methods, {**helps, **self.helps(node)}, bool(is_whole), list(paths))
        return made

    def helps(self, node):
        """Descriptions of fields: the text that follows, or the comment beside or above."""
        found = {}
        for index, field in enumerate(node.body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            following = node.body[index + 1] if index + 1 < len(node.body) else None
            above = self.lines[field.lineno - 2].strip() if field.lineno > 1 else ""
            rest = self.lines[field.end_lineno - 1].encode()[field.end_col_offset:].decode("utf-8", "replace").strip()
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant) and isinstance(following.value.value, str):
                found[field.target.id] = following.value.value.strip()
            elif rest.startswith("#"):
                found[field.target.id] = rest.lstrip("# ")
            elif above.startswith("#"):
                found[field.target.id] = above.lstrip("# ")
        return found

    # Calls

    def call(self, function, args, kwargs, node):
        self.tick()
        if isinstance(function, Symbol):
            return self.call_package(function.path, args, kwargs)
        if isinstance(function, Function):
            return self.call_function(function, args, kwargs)
        if isinstance(function, Class):
            return self.construct(function, args, kwargs)
        if isinstance(function, Model):
            return function.call(self, args, kwargs)
        if isinstance(function, type) and function in self.about and any(path.endswith(".BaseSettings") for path in self.about[function].paths):
            return MODELS["BaseSettings"](self, function, args, kwargs)
        if function is dataclasses.dataclass:
            return Dataclass(kwargs)
        values = [*args, *kwargs.values()]
        if function in (dataclasses.field, dict, list, tuple, isinstance) and not any(isinstance(one, Unknown) for one in args):
            kwargs = {name: self.callable(value) for name, value in kwargs.items()}
            return self.attempt(function, args, kwargs)
        if isinstance(function, Method):
            return self.attempt(function.function, args, kwargs)
        is_made = isinstance(function, type) and function in self.about or isinstance(function, enum.EnumMeta)
        if is_made or self.is_pure_function(function) and all(map(is_pure, values)):
            return self.attempt(function, args, {name: self.callable(value) for name, value in kwargs.items()})
        self.leak(values)
        return Unknown()

    def is_pure_function(self, function):
        try:
            return function in CALLED or isinstance(function, type) and issubclass(function, BaseException)
        except TypeError:
            return False

    def attempt(self, function, args, kwargs):
        if function is range and any(isinstance(value, int) and abs(value) > MAX_NODES for value in args):
            return Unknown()
        try:
            return function(*args, **kwargs)
        except Exception:
            return Unknown()

    def callable(self, value):
        """A function of the script as one of Python."""
        if not isinstance(value, (Function, Class)):
            return value

        def called(*args):
            found = self.call(value, list(args), {}, None)
            if isinstance(found, Unknown):
                raise ValueError("it is not known")
            return found

        called.__name__ = called.__qualname__ = value.name
        return called

    def call_package(self, path, args, kwargs):
        model = MODELS.get(path) or MODELS.get("*." + path.rpartition(".")[2])
        if model is not None:
            return model(self, args, kwargs)
        if path in ("sys.exit", "exit", "quit", "os._exit"):
            raise Ended()
        if path.startswith("os.path.") and path[8:] in PATHS and all(map(is_pure, args)):
            return self.attempt(getattr(os.path, path[8:]), args, kwargs)
        if path in ("os.environ.get", "os.getenv", "environ.get") and all(map(is_pure, args)) and args:
            return self.attempt(os.environ.get, args, kwargs)
        if path != "print":
            self.leak([*args, *kwargs.values()])
        return Unknown()

    def call_function(self, function, args, kwargs):
        arguments = function.node.args
        named = [argument.arg for argument in getattr(arguments, "posonlyargs", []) + arguments.args]
        args = [*(function.bound or ()), *args]
        is_generator = any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(function.node))
        if self.depth >= MAX_DEPTH or is_generator:
            self.leak([*args, *kwargs.values()])
            return Unknown()
        scope = Scope(function.scope if "__qualname__" not in function.scope.names else function.scope.parent)
        scope.names.update(function.defaults)
        scope.names.update(zip(named, args))
        only = {argument.arg for argument in arguments.kwonlyargs}
        scope.names.update({name: value for name, value in kwargs.items() if name in only or name in named})
        if arguments.vararg:
            scope.names[arguments.vararg.arg] = tuple(args[len(named):])
        if arguments.kwarg:
            scope.names[arguments.kwarg.arg] = {name: kwargs[name] for name in kwargs if name not in only and name not in named}
        for name in [*named, *only]:
            scope.names.setdefault(name, Unknown())
        before, self.depth = self.unsure, self.depth + 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, scope)
            self.block(function.node.body, scope)
        except Returned as returned:
            return returned.args[0]
        except RecursionError:
            raise Ended() from None
        finally:
            self.depth -= 1
            self.unsure = before
        return Unknown() if getattr(scope, "maybe", False) else None

    def construct(self, kind, args, kwargs):
        for ancestor in kind.ancestors():
            model = MODELS.get("class " + ancestor)
            if model is not None:
                return model(self, kind, args, kwargs)
        instance = Instance(kind)
        made = kind.find("__init__")
        if isinstance(made, Function):
            self.call_function(made.with_self(instance), args, kwargs)
        else:
            self.leak([*args, *kwargs.values()])
        return instance

    def leak(self, values):
        """Code that the tree does not show may change these values."""
        for value in values:
            value = value.owner if isinstance(value, Method) else value
            if isinstance(value, Model):
                self.taint(value, "it is passed to code that is not in this file")

    def taint(self, model, why):
        model = getattr(model, "root", model)
        self.partial.setdefault(id(model), (model, why))

    def read(self, model, read, *args):
        """The script reads its parameters here; `read` describes them. In a branch that may not be run, that is only a guess."""
        try:
            read(*args)
        except Answered as answered:
            found = answered.args[0]
        else:
            found = None
        why = self.partial.get(id(getattr(model, "root", model)), (None, ""))[1]
        if self.unsure:
            why = why or "they are read in a branch that may not be run"
        if found is None:
            raise Ended()
        self.candidates.append(dict(found, why=why))
        if self.unsure:
            return Unknown()
        raise Answered(dict(found, why=why))

    # Expressions

    def truth(self, value):
        """True or false, or `None` if that is not known."""
        if isinstance(value, (Unknown, Symbol, Instance)):
            return None
        if isinstance(value, (Function, Class, Model)):
            return True
        return bool(value)

    def value(self, node, scope):
        self.tick()
        method = getattr(self, "of_" + type(node).__name__, None)
        try:
            return Unknown() if method is None else method(node, scope)
        except (Answered, Returned, Ended, Raised, Jump):
            raise
        except RecursionError:
            raise Ended() from None
        except Exception:
            return Unknown()

    def of_Constant(self, node, scope):
        return node.value

    def of_Index(self, node, scope):
        return self.value(node.value, scope)

    def of_Name(self, node, scope):
        return self.real(scope.get(node.id))

    def of_Attribute(self, node, scope):
        return self.attribute(self.value(node.value, scope), node.attr)

    def attribute(self, owner, name):
        if isinstance(owner, Symbol):
            return self.real(Symbol(owner.path + "." + name))
        if isinstance(owner, Model):
            return Method(lambda *args, **kwargs: owner.method(self, name, args, kwargs), owner, name)
        if isinstance(owner, Instance):
            if name in owner.attributes:
                return owner.attributes[name]
            found = owner.kind.find(name)
            is_plain = isinstance(found, Function) and not found.node.decorator_list
            return found.with_self(owner) if is_plain else Unknown() if found is None or isinstance(found, Function) else found
        if isinstance(owner, Class):
            found = owner.find(name)
            return Unknown() if found is None else found
        if isinstance(owner, Configuration):
            return owner.attribute(name)
        if isinstance(owner, type) and owner in self.about or type(owner) in self.about:
            methods = self.about[owner if isinstance(owner, type) else type(owner)].methods
            if name in methods:
                return methods[name] if isinstance(owner, type) else methods[name].with_self(owner)
            return getattr(owner, name, Unknown())
        if isinstance(owner, enum.Enum) and name in ("name", "value") or isinstance(owner, enum.EnumMeta) and not name.startswith("_"):
            return getattr(owner, name)
        is_plain = isinstance(owner, METHODS) and not name.startswith("_") and not (isinstance(owner, pathlib.PurePath) and name in LOOKS)
        if is_plain and name not in ("format", "format_map"):
            found = getattr(owner, name)
            return Method(found, owner, name) if callable(found) else found
        if isinstance(owner, Function) and name in ("__doc__", "__name__"):
            return ast.get_docstring(owner.node, clean=False) if name == "__doc__" else owner.name
        return Unknown()

    def real(self, value):
        """The real value of a name of a package that is known."""
        if not isinstance(value, Symbol):
            return value
        package, _, name = value.path.partition(".")
        if value.path == "sys.argv":
            return [SCRIPT, *self.arguments]
        if value.path == "argparse.SUPPRESS":
            return "==SUPPRESS=="
        if value.path == "json.loads":
            return json.loads
        if package in REAL and name and "." not in name and not name.startswith("_"):
            return getattr(REAL[package], name, value)
        return value

    def of_Call(self, node, scope):
        function = self.value(node.func, scope)
        args, kwargs = [], {}
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                inner = self.value(argument.value, scope)
                args += list(inner) if isinstance(inner, (list, tuple, set)) else [Unknown()]
            else:
                args.append(self.value(argument, scope))
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs.update({name: inner for name, inner in value.items() if isinstance(name, str)})
            else:
                kwargs["**"] = Unknown()
        return self.call(function, args, kwargs, node)

    def of_Lambda(self, node, scope):
        return self.function(node, scope)

    def items(self, nodes, scope):
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.value(node.value, scope)
                yield from list(inner) if isinstance(inner, (list, tuple, set, range)) else [Unknown()]
            else:
                yield self.value(node, scope)

    def of_List(self, node, scope):
        return list(self.items(node.elts, scope))

    def of_Tuple(self, node, scope):
        return tuple(self.items(node.elts, scope))

    def of_Set(self, node, scope):
        return set(self.items(node.elts, scope))

    def of_Dict(self, node, scope):
        found = {}
        for key, value in zip(node.keys, node.values):
            inner = self.value(value, scope)
            if key is not None:
                found[self.value(key, scope)] = inner
            elif isinstance(inner, dict):
                found.update(inner)
            else:
                return Unknown()
        return found

    def of_JoinedStr(self, node, scope):
        parts = []
        for part in node.values:
            value = self.value(part.value if isinstance(part, ast.FormattedValue) else part, scope)
            plain = isinstance(value, (str, int, float, bool)) and not (isinstance(part, ast.FormattedValue) and part.format_spec)
            if not plain:
                return Unknown()
            parts.append(str(value))
        return "".join(parts)

    def of_UnaryOp(self, node, scope):
        value = self.value(node.operand, scope)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            return Unknown() if truth is None else not truth
        return UNARY[type(node.op)](value) if isinstance(value, (int, float)) else Unknown()

    def of_BinOp(self, node, scope):
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        kinds = (int, float, str, list, tuple, pathlib.PurePath, set, dict)
        is_type = lambda value: isinstance(value, type) or value is None or getattr(type(value), "__module__", "") == "typing"
        if isinstance(node.op, ast.BitOr) and is_type(left) and is_type(right):
            return typing.Union[left, right]
        if not isinstance(left, kinds) or not isinstance(right, (*kinds, type(None))):
            return Unknown()
        numbers = [value for value in (left, right) if isinstance(value, int) and not isinstance(value, bool)]
        if isinstance(node.op, (ast.Pow, ast.LShift)) and any(abs(value) > 1000 for value in numbers):
            return Unknown()
        sized = [len(value) for value in (left, right) if isinstance(value, (str, list, tuple))]
        if isinstance(node.op, ast.Mult) and sized and max(sized) * max([*numbers, 1]) > MAX_LENGTH:
            return Unknown()
        return BINARY[type(node.op)](left, right)

    def of_BoolOp(self, node, scope):
        is_or, value = isinstance(node.op, ast.Or), None
        for one in node.values:
            value = self.value(one, scope)
            truth = self.truth(value)
            if truth is None:
                return Unknown()
            if truth == is_or:
                return value
        return value

    def of_Compare(self, node, scope):
        values = [self.value(one, scope) for one in [node.left, *node.comparators]]
        for op, left, right in zip(node.ops, values, values[1:]):
            if isinstance(left, (Unknown, Symbol, Instance)) or isinstance(right, (Unknown, Symbol, Instance)):
                return Unknown()
            if not COMPARED[type(op)](left, right):
                return False
        return True

    def of_IfExp(self, node, scope):
        truth = self.truth(self.value(node.test, scope))
        if truth is None:
            # Either may read the parameters.
            self.unsure += 1
            try:
                self.value(node.body, scope)
                self.value(node.orelse, scope)
            finally:
                self.unsure -= 1
            return Unknown()
        return self.value(node.body if truth else node.orelse, scope)

    def of_Subscript(self, node, scope):
        owner, key = self.value(node.value, scope), self.value(node.slice, scope)
        if isinstance(owner, (list, tuple, str, range)) and isinstance(key, (int, slice)):
            return owner[key]
        if isinstance(owner, dict) and not is_open(key):
            return owner[key]
        if isinstance(owner, Configuration) and isinstance(key, str):
            return owner.attribute(key)
        if owner is typing.Literal or owner is typing.Annotated if hasattr(typing, "Annotated") else owner is typing.Literal:
            return owner[key]
        if isinstance(owner, enum.EnumMeta):
            return owner[key]
        if not is_open(key) and (getattr(owner, "__module__", "") == "typing" or owner in (list, tuple, dict, set, type)):
            return owner[key]
        return Unknown()

    def of_Slice(self, node, scope):
        parts = [None if part is None else self.value(part, scope) for part in (node.lower, node.upper, node.step)]
        return Unknown() if is_open(parts) else slice(*parts)

    def of_NamedExpr(self, node, scope):
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def of_Await(self, node, scope):
        return self.value(node.value, scope)

    def comprehension(self, node, scope, make):
        found, inner = [], Scope(scope)

        def level(generators):
            if not generators:
                found.append(make(inner))
                return True
            items = self.value(generators[0].iter, inner)
            if not isinstance(items, (list, tuple, set, dict, range, str, zip, enumerate)) and not type(items).__name__.startswith("dict_"):
                return isinstance(items, enum.EnumMeta) and level_of(list(items), generators)
            return level_of(list(items), generators)

        def level_of(items, generators):
            for item in items:
                self.tick()
                self.assign(generators[0].target, item, inner)
                tests = [self.truth(self.value(test, inner)) for test in generators[0].ifs]
                if None in tests or (all(tests) and not level(generators[1:])):
                    return False
            return True

        return found if level(node.generators) else None

    def of_ListComp(self, node, scope):
        found = self.comprehension(node, scope, lambda inner: self.value(node.elt, inner))
        return Unknown(IS_LIST) if found is None else found

    of_GeneratorExp = of_ListComp

    def of_SetComp(self, node, scope):
        found = self.comprehension(node, scope, lambda inner: self.value(node.elt, inner))
        return Unknown(IS_LIST) if found is None else set(found)

    def of_DictComp(self, node, scope):
        found = self.comprehension(node, scope, lambda inner: (self.value(node.key, inner), self.value(node.value, inner)))
        return Unknown(IS_LIST) if found is None else dict(found)


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


class Configuration:
    """A configuration with attributes: that of ml_collections, and the values of OmegaConf."""

    def __init__(self, values=None):
        self.values = {}
        for name, value in (values or {}).items():
            self.values[name] = Configuration(value) if isinstance(value, dict) else value

    def attribute(self, name):
        return self.values.get(name, Unknown())

    def plain(self):
        return {name: value.plain() if isinstance(value, Configuration) else value for name, value in self.values.items()}
