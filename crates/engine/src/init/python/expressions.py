# Continues `values.py`: the expressions of a syntax tree.


class Expressions:
    def truth(self, value):
        """True or false, or `None` if that is not known."""
        if isinstance(value, (Unknown, Symbol, Instance, Module)):
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
            raise Exhausted() from None
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
        if isinstance(owner, Configuration) and name in owner.values:
            return owner.values[name]
        if isinstance(owner, Model):
            return Method(lambda *args, **kwargs: owner.method(self, name, args, kwargs), owner, name)
        if isinstance(owner, Module):
            return owner.names.get(name, Unknown())
        if isinstance(owner, Instance):
            if name in owner.attributes:
                return owner.attributes[name]
            found = owner.kind.find(name)
            if isinstance(found, Function):
                return found.of(self, owner, owner.kind)
            if owner.model is not None and (found is None or isinstance(found, Unknown)):
                return self.attribute(owner.model, name)
            return Unknown() if found is None else found
        if isinstance(owner, Super):
            return self.of_super(owner, name)
        if isinstance(owner, Class):
            found = owner.find(name)
            return Unknown() if found is None else found.of(self, None, owner) if isinstance(found, Function) else found
        if isinstance(owner, type) and owner in self.about or type(owner) in self.about:
            methods = self.about[owner if isinstance(owner, type) else type(owner)].methods
            if name in methods:
                is_class = isinstance(owner, type)
                return methods[name].of(self, None if is_class else owner, owner if is_class else type(owner))
            return getattr(owner, name, Unknown())
        if isinstance(owner, enum.Enum) and name in ("name", "value") or isinstance(owner, enum.EnumMeta) and not name.startswith("_"):
            return getattr(owner, name)
        if isinstance(owner, pathlib.PurePath) and name == "read_text" and owner.suffix == ".py":
            return Method(lambda *args, **kwargs: file_of(owner), owner, name)
        is_plain = isinstance(owner, METHODS) and not name.startswith("_") and not (isinstance(owner, pathlib.PurePath) and name in LOOKS)
        if is_plain and name not in ("format", "format_map"):
            found = getattr(owner, name)
            return Method(found, owner, name) if callable(found) else found
        if isinstance(owner, Function) and name in ("__doc__", "__name__"):
            return ast.get_docstring(owner.node, clean=False) if name == "__doc__" else owner.name
        return Unknown()

    def of_super(self, owner, name):
        for kind in owner.kinds:
            found = kind.find(name) if isinstance(kind, Class) else None
            if isinstance(found, Function):
                return found.of(self, owner.instance, owner.instance.kind if isinstance(owner.instance, Instance) else owner.instance)
            if found is not None:
                return found
            model = MODELS.get("class " + kind.path) if isinstance(kind, Symbol) else None
            if name == "__init__" and model is not None and isinstance(owner.instance, Instance):
                return Method(lambda *args, **kwargs: model(self, owner.instance, args, kwargs), owner.instance, name)
            if model is not None and isinstance(owner.instance, Instance) and owner.instance.model is not None:
                return self.attribute(owner.instance.model, name)
        return Unknown()

    def super_of(self, args, scope):
        """`super()` in a method of the script."""
        while scope is not None and not hasattr(scope, "current"):
            scope = scope.parent
        function, first = (None, None) if scope is None else scope.current
        instance = args[1] if len(args) == 2 else first
        kind = instance.kind if isinstance(instance, Instance) else instance
        inner = args[0] if args else kind.find_class(function.node) if isinstance(kind, Class) else None
        return Super(instance, inner.bases) if isinstance(inner, Class) else Unknown()

    def real(self, value):
        """The real value of a name of a package that is known."""
        if not isinstance(value, Symbol):
            return value
        package, _, name = value.path.partition(".")
        if value.path == "sys.argv":
            return [SCRIPT, *self.arguments]
        if value.path in CONSTANTS:
            return CONSTANTS[value.path]
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
        if isinstance(function, Symbol) and function.path == "super":
            return self.super_of(args, scope)
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
        if sum(value.bit_length() for value in numbers) > MAX_LENGTH:
            return Unknown()
        if isinstance(node.op, (ast.Pow, ast.LShift)) and any(abs(value) > 1000 for value in numbers):
            return Unknown()
        sized = [len(value) for value in (left, right) if isinstance(value, (str, list, tuple))]
        if sum(sized) > 10 * MAX_LENGTH or isinstance(node.op, ast.Mod) and isinstance(left, str) and re.search(r"[0-9]{5}|\*", left):
            return Unknown()
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
                kinds = {type(self.value(one, scope)) for one in (node.body, node.orelse)}
            finally:
                self.unsure -= 1
            return Unknown(kind=kinds.pop() if len(kinds) == 1 and kinds <= {bool, int, float, str} else None)
        return self.value(node.body if truth else node.orelse, scope)

    def of_Subscript(self, node, scope):
        owner, key = self.value(node.value, scope), self.value(node.slice, scope)
        if isinstance(owner, Symbol) and owner.path == "os.environ" and isinstance(key, str):
            self.environment(key, None, True)
        if isinstance(owner, (list, tuple, str, range)) and isinstance(key, (int, slice)):
            return owner[key]
        if isinstance(owner, dict) and not is_open(key):
            return owner[key]
        if isinstance(owner, Configuration) and isinstance(key, str):
            return owner.attribute(key)
        if owner is getattr(typing, "Annotated", 0) and is_open(key) and "tyro" in self.imported:
            # What tyro is told there may be another name.
            return Unknown()
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
