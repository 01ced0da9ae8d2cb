# Continues `values.py`: the statements of a syntax tree. A branch of which it is not known whether it is run is followed, and what it
# changes is `Unknown` afterwards.


class Statements:
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
            path = alias.name if alias.asname else alias.name.split(".")[0]
            module = self.own_module(path)
            scope.names[alias.asname or path] = Symbol(path) if module is None else module
            # `import a.b` makes `b` an attribute of `a`.
            words = alias.name.split(".")
            for end in range(2, len(words) + 1):
                inner = self.own_module(".".join(words[:end]))
                outer = self.own_module(".".join(words[: end - 1])) if inner is not None else None
                if outer is not None:
                    outer.names[words[end - 1]] = inner

    def do_ImportFrom(self, node, scope):
        path = self.absolute(node.module or "", node.level)
        self.imported.add(path)
        module = self.own_module(path)
        for alias in node.names:
            inner = self.own_module(".".join(filter(None, [path, alias.name]))) if alias.name != "*" else None
            if module is None or alias.name != "*" and alias.name not in module.names:
                self.imported.add(path + "." + alias.name)
            if module is not None and (alias.name in module.names or inner is None):
                if alias.name == "*":
                    listed = module.names.get("__all__")
                    listed = listed if isinstance(listed, (list, tuple)) else [name for name in module.names if not name.startswith("_")]
                    scope.names.update({name: module.names[name] for name in listed if isinstance(name, str) and name in module.names})
                else:
                    scope.names[alias.asname or alias.name] = module.names.get(alias.name, Unknown())
            else:
                scope.names[alias.asname or alias.name] = self.real(Symbol(path + "." + alias.name)) if inner is None else inner

    def absolute(self, name, level):
        """The name of a module, of which a relative one starts at this file."""
        if not level:
            return name
        folder = pathlib.Path(self.path).resolve().parent
        for _ in range(level - 1):
            folder = folder.parent
        # The nearest one above is that of the package.
        above = [root for root in self.roots if root in folder.parents]
        for root in [*sorted(above, key=lambda root: -len(root.parts)), *self.roots]:
            if folder == root or root in folder.parents:
                return ".".join([*folder.relative_to(root).parts, *filter(None, [name])])
        return "." * level + name

    def own_module(self, name):
        """A module of the script's folder or of its project, which is followed, too."""
        # The project may be that of a package which is known.
        is_known = any(known.startswith(name.split(".")[0] + ".") for known in MODELS)
        for root in [] if not name or name.startswith(".") else self.roots[:2] if is_known else self.roots:
            path = root.joinpath(*name.split("."))
            for path in (path.with_name(path.name + ".py"), path / "__init__.py"):
                if path in self.modules:
                    return self.modules[path]
                is_small = path.is_file() and len(self.modules) < MAX_MODULES
                if is_small and sum(known.stat().st_size for known in [*self.modules, path]) <= MAX_BYTES:
                    return self.followed(path, name)
        return None

    def followed(self, path, name):
        try:
            inner = Follower(str(path), self.arguments)
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
            return None
        inner.module.names["__name__"] = name
        if b"sys.argv" in inner.text:
            self.imported.add("sys.argv")
        # All but its own text and names is common.
        for common in ("folder", "roots", "modules", "about", "imported", "partial", "candidates", "flags", "variables", "hydra"):
            setattr(inner, common, getattr(self, common, None))
        inner.unsure, inner.nodes = self.unsure, self.nodes
        module = self.modules[path] = Module(inner.module.names)
        # The script itself needs what is left.
        inner.limit = MAX_NODES // 2
        try:
            inner.follow()
        except (Raised, Returned, Jump, Exhausted, RecursionError):
            pass
        # Functions of the module may be called later.
        self.nodes, inner.limit = min(inner.nodes, MAX_NODES // 2), MAX_NODES
        return module

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
            if made in (staticmethod, classmethod, property) and isinstance(function, Function):
                function.kind = made.__name__
            elif not (isinstance(made, Symbol) and made.__name__ in KEEPERS and made.path not in MODELS):
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
                self.assign(item.optional_vars, value if isinstance(value, (Symbol, File)) else Unknown(), scope)
        self.block(node.body, scope)

    do_AsyncWith = do_With

    def do_Return(self, node, scope):
        value = None if node.value is None else self.value(node.value, scope)
        raise Returned(Unknown() if getattr(scope, "maybe", False) else value)

    def do_Raise(self, node, scope):
        raised = None if node.exc is None else self.value(node.exc, scope)
        raise Ended() if raised is SystemExit or isinstance(raised, SystemExit) else Raised()

    def do_Match(self, node, scope):
        subject = self.value(node.subject, scope)
        for case in node.cases:
            matches = False if is_open(subject) or case.guard is not None else self.matches(case.pattern, subject, scope)
            if matches:
                self.block(case.body, scope)
                return
            if matches is None or is_open(subject) or case.guard is not None:
                break
        else:
            return
        self.branch([case.body for case in node.cases], scope)

    def matches(self, pattern, subject, scope):
        """Whether a pattern has a known value; `None` if that is not known."""
        kind = type(pattern).__name__
        if kind in ("MatchValue", "MatchSingleton"):
            value = self.value(pattern.value, scope) if kind == "MatchValue" else pattern.value
            return None if is_open(value) or isinstance(subject, (Symbol, Instance, Model)) else value == subject
        if kind == "MatchOr":
            found = [self.matches(one, subject, scope) for one in pattern.patterns]
            return True if True in found else None if None in found else False
        if kind == "MatchAs" and pattern.pattern is None:
            if pattern.name:
                self.bind(pattern.name, subject, scope)
            return True
        return None

    def bind(self, name, value, scope):
        (scope.root() if name in scope.globals else scope).names[name] = value

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
            # Options of the class are those of its configuration.
            config = plain_values.get("model_config", {})
            inherited = [vars(base).get("model_config") for base in bases if isinstance(base, type)]
            if isinstance(config, dict):
                plain_values["model_config"] = {**next(filter(None, inherited), {}), **config, **keywords}
            annotations = {name: hint for name, hint in annotations.items() if not name.startswith("_")}
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
        if sys.version_info < (3, 10) and options.get("kw_only"):
            # Then required fields come first.
            options = {name: value for name, value in options.items() if name != "kw_only"}
            names["__annotations__"] = dict(sorted(hints.items(), key=lambda hint: hint[0] in values))
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
