# Continues `statements.py`, `calls.py` and `expressions.py`: follows the syntax tree of a script, without running it.


class Follower(Statements, Calls, Expressions):
    """Follows a script. `parts` are parsers of which the tree shows a part only, each with the reason."""

    def __init__(self, path, arguments, source=None):
        self.path, self.arguments = path, arguments
        self.text = pathlib.Path(path).read_bytes() if source is None else source.encode()
        self.tree = ast.parse(self.text, path)
        self.lines = self.text.decode("utf-8", "replace").splitlines()
        self.module = Scope(names={"__file__": path, "__doc__": ast.get_docstring(self.tree, clean=False)})
        self.unsure, self.nodes, self.depth, self.limit = 0, 0, 0, MAX_NODES
        self.folder, self.modules = pathlib.Path(path).resolve().parent, {}
        self.roots = list(self.roots_of(self.folder))
        self.about, self.imported, self.partial, self.candidates = {}, set(), {}, []
        # What a script stores for Hydra, by its path.
        self.hydra = {}

    def roots_of(self, folder):
        """The folders in which modules are looked for: that of the script, that of its package, and those of its project."""
        top = folder
        while (top / "__init__.py").is_file() and top != top.parent:
            top = top.parent
        here = pathlib.Path.cwd()
        return dict.fromkeys([folder, top, here, here / "src"])

    def follow(self):
        self.block(self.tree.body, self.module)

    def tick(self):
        self.nodes += 1
        if self.nodes > self.limit:
            raise Exhausted()
