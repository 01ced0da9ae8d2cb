# Continues `values.py`: calls.


class Calls:
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
            if isinstance(function.owner, str) and any(isinstance(value, int) and abs(value) > MAX_LENGTH for value in values):
                return Unknown()
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
        if isinstance(value, Instance):
            method = self.attribute(value, "__call__")
            value = method if isinstance(method, Function) else value.kind
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
        if path in READERS and args and isinstance(args[0], str):
            default = args[1] if len(args) > 1 else kwargs.get("default")
            self.environment(args[0], default, False)
            is_known = path != "decouple.config" and is_pure(default)
            return os.environ.get(args[0], default) if is_known else Unknown()
        if path != "print":
            self.leak([*args, *kwargs.values()])
        return Unknown()

    def environment(self, name, default, required):
        """The script reads a variable of the environment."""
        known = self.variables if self.variables is not None else {}
        is_system = name in SYSTEM or name.startswith(PREFIXES) or any(word in name.upper() for word in SECRETS)
        if is_system or name in known and (known[name]["default"] is not None or default is None):
            return
        is_computed = not is_pure(default)
        default = None if is_computed else number(default) if isinstance(default, str) else default
        note = "its default is computed by the script" if is_computed else None
        known[name] = parameter(name, "value", default, required=required, note=note)

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
        scope.current = (function, args[0] if args else None)
        before, self.depth = self.unsure, self.depth + 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, scope)
            self.block(function.node.body, scope)
        except Returned as returned:
            return returned.args[0]
        except RecursionError:
            raise Exhausted() from None
        finally:
            self.depth -= 1
            self.unsure = before
        return Unknown() if getattr(scope, "maybe", False) else None

    def construct(self, kind, args, kwargs):
        for ancestor in kind.ancestors():
            model = MODELS.get("class " + ancestor) or MODELS.get("class *." + ancestor.rpartition(".")[2])
            if model is not None:
                instance, made = Instance(kind), kind.find("__init__")
                if isinstance(made, Function):
                    self.call_function(made.with_self(instance), args, kwargs)
                else:
                    model(self, instance, args, kwargs)
                return instance
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
            value = value.model if isinstance(value, Instance) else value
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
