# Continues `models.py`: reads the script's syntax tree. It runs nothing of the script, and imports nothing of it.

# Packages that read command lines: a script that has one of them does not take its parameters from environment variables.
PARSERS = {"argparse", "click", "typer", "hydra", "tyro", "absl", "fire", "docopt", "optparse", "jsonargparse", "simple_parsing", "draccus"}
PARSERS |= {"pyrallis", "sacred", "gin", "plac", "cyclopts", "clize", "configargparse", "defopt", "sweep", "getopt", "tap"}
# Environment variables of systems, which are no parameters.
SYSTEM = {"HOME", "PATH", "USER", "PWD", "SHELL", "TMPDIR", "HOSTNAME", "PYTHONPATH", "LD_LIBRARY_PATH", "DISPLAY", "LANG", "TERM"}
SYSTEM |= {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "SWEEP_PARAMS"}
PREFIXES = ("CUDA_", "OMP_", "MKL_", "SLURM_", "NCCL_", "XLA_", "TF_", "PYTORCH_", "TORCH_", "HF_", "WANDB_", "SWEEP_", "OMPI_", "PBS_", "AWS_")
SECRETS = ("TOKEN", "SECRET", "PASSWORD", "API_KEY", "CREDENTIAL")


# Functions that read a variable of the environment.
READERS = {"os.environ.get", "os.getenv", "os.environ.setdefault", "decouple.config"}


def imports(tree):
    """The names of packages in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or path, Symbol(path)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, Symbol(node.module + "." + alias.name)


def variables(follower):
    """The environment variables that a script reads, with their defaults: those that were met, and those of its functions that are
    not called."""
    scope = Scope(names={**dict(imports(follower.tree)), **{name: value for name, value in follower.module.names.items() if is_pure(value)}})
    reads, defaults = [], {}
    for node in ast.walk(follower.tree):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            # `os.environ.get("LR") or 0.1`.
            defaults.update({id(node.values[0]): node.values[1]})
        if isinstance(node, (ast.Call, ast.Subscript)):
            reads.append(node)
    for node in sorted(reads, key=lambda node: (node.lineno, node.col_offset)):
        name, default, required = None, defaults.get(id(node)), False
        if isinstance(node, ast.Call):
            function = follower.value(node.func, scope) if isinstance(node.func, (ast.Name, ast.Attribute)) else None
            if isinstance(function, Symbol) and function.path in READERS and node.args:
                name = node.args[0]
                default = next((one.value for one in node.keywords if one.arg == "default"), default)
                default = node.args[1] if len(node.args) > 1 else default
        elif isinstance(node.ctx, ast.Load):
            owner = follower.value(node.value, scope) if isinstance(node.value, (ast.Name, ast.Attribute)) else None
            if isinstance(owner, Symbol) and owner.path == "os.environ":
                name, required = getattr(node.slice, "value", node.slice), True
        name = name.value if isinstance(name, ast.Constant) else name
        if isinstance(name, str):
            value = None if default is None else follower.value(default, scope)
            follower.environment(name, value, required)
    return list(follower.variables.values())


def is_alone(follower):
    """True if the script has no package that reads command lines, and no module of its own folder that was not followed."""
    first = {name.split(".")[0] for name in follower.imported}
    is_own = lambda name: any((root / (name + ".py")).exists() or (root / name / "__init__.py").exists() for root in follower.roots)
    own = [name for name in first if not name or is_own(name)]
    followed = {path.relative_to(root).parts[0].split(".")[0] for path in follower.modules for root in follower.roots if root in path.parents}
    return set(own) <= followed and not first & PARSERS and b"sys.argv" not in follower.text and "sys.argv" not in follower.imported


def read_notebook():
    """Prints the variables of the cell with the tag `parameters`, which papermill replaces."""
    try:
        cells = json.loads(pathlib.Path(SCRIPT).read_text(encoding="utf-8"))["cells"]
        tagged = [cell for cell in cells if "parameters" in (cell.get("metadata") or {}).get("tags", ())]
        source = tagged[0]["source"] if tagged else None
        source = "".join(source) if isinstance(source, list) else source
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        tell(source="none", parameters=[], why="it is no notebook: " + text(error), whole=True)
    if source is None:
        tell(source="none", parameters=[], why="no cell of it has the tag `parameters`", whole=True)
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        follower = Follower(SCRIPT, [], "\n".join(lines))
        follower.flags, follower.variables = Flags(), {}
        follower.follow()
    except SyntaxError as error:
        tell(source="none", parameters=[], why="its cell with the tag `parameters` is no Python: " + text(error.msg), whole=True)
    except (Answered, Ended, Raised, Returned, Jump, RecursionError):
        pass
    tell(source="papermill", parameters=list(of_cell(follower.module.names)), whole=True)


def of_cell(values):
    for name, value in values.items():
        if name.startswith("_") or isinstance(value, (Symbol, Function, Class, Instance, Model, Module, type)):
            continue
        style = "truth" if isinstance(value, bool) else "list" if isinstance(value, (list, tuple)) else "value"
        note = "its default is computed" if is_open(value) else None
        yield parameter(name, style, None if note else value, None if value is None else type(value).__name__, note=note)


def raise_answer(answered):
    raise Answered(answered)


def read_tree():
    """Prints what the tree shows: `whole` if it is all that a run would show, else with the reason in `why`."""
    tellers.append(raise_answer)
    try:
        follower = Follower(SCRIPT, ARGUMENTS)
    except SyntaxError as error:
        tellers.clear()
        tell(source="broken", parameters=[], line=error.lineno or 0, why=text(error.msg), whole=True)
    except (ValueError, RecursionError, OSError) as error:
        tellers.clear()
        tell(source="none", parameters=[], why=text(error), whole=False)
    follower.flags, follower.variables = Flags(), {}
    answer = None
    try:
        follower.follow()
    except Answered as answered:
        answer = answered.args[0]
    except (Ended, Raised, Returned, Jump, RecursionError):
        pass
    tellers.clear()
    follower.nodes = 0
    if answer is None and follower.candidates:
        answer = follower.candidates[-1]
    if answer is not None:
        tell(**dict(answer, whole=not answer["why"]))
    found = variables(follower)
    if found:
        alone = is_alone(follower)
        tell(source="environment", parameters=found[:MOST], whole=alone, why="" if alone else "its modules may read others")
    kept = [model for model, _ in follower.partial.values() if isinstance(model, (Parser, OptionParser))]
    if kept:
        show_rest(kept, follower)
    tell(source="none", parameters=[], why="its file shows none", whole=False)


def show_rest(kept, follower):
    """A parser of which the tree does not show where it parses."""
    tellers.append(raise_answer)
    answers = []
    for model in kept:
        try:
            (of_optparse if isinstance(model, OptionParser) else of_parser)(model.real)
        except Answered as answered:
            answers.append(answered.args[0])
        except Exception:
            pass
    tellers.clear()
    answer = max(answers, key=lambda one: len(one["parameters"]), default=None)
    if answer is not None and answer["parameters"]:
        tell(**dict(answer, whole=False, why=follower.partial[id(kept[0])][1]))


def limit():
    """Bounds memory and time: a tree may compute large values."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    except (ImportError, OSError, ValueError):
        pass


def main():
    limit()
    # A statement in a statement takes several calls.
    sys.setrecursionlimit(3000)
    try:
        if SCRIPT.endswith(".ipynb"):
            read_notebook()
        read_tree()
    except BaseException as error:
        tellers.clear()
        tell(source="none", parameters=[], why="its tree cannot be followed: " + text(repr(error)), whole=False)


main()
