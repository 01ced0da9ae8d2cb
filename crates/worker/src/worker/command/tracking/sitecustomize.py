"""Records the files and packages that a Python program reads, for `sweep`.

Python imports this module at its start, because its folder is the first on PYTHONPATH. It appends a line to the file
SWEEP_READS for each file below SWEEP_PROJECT that is read or written, and for each installed package that is imported.
Lines have fields between tabs, of bytes, because paths need not be text, and because `json` would take longer to import
than all of this:

    begin  process
    read   size  time  inode  path  importer
    write  path
    package  folder  module

Where the kernel reports the files (SWEEP_READS_AID), only what it does not know: the importers of modules, folders that the
import system lists, and names of modules that are looked for, on Python's path or in the folders of a package:

    begin  process
    by     path  importer
    lists  folder
    path   folder
    wants  module
    wants  module  folder

Nothing here may fail or change what the program does: every error is ignored, and the module that has the name
`sitecustomize` without this one is imported in its place.
"""

import os
import sys


def _observe():
    reads = os.environ.get("SWEEP_READS")
    project = os.environ.get("SWEEP_PROJECT")
    if not reads or not project:
        return
    from posix import O_ACCMODE, O_APPEND, O_RDONLY, O_TRUNC, O_WRONLY, close, open as os_open, stat, write

    fsencode, fspath, realpath = os.fsencode, os.fspath, os.path.realpath
    getframe = sys._getframe
    top = os.path.join(os.path.realpath(project), "")
    aids = bool(os.environ.get("SWEEP_READS_AID"))
    seen = set()
    skipped = [folder for folder in os.environ.get("SWEEP_SKIPPED", "").split("\n") if folder]
    # An environment in the project's folder, or a project in the environment's.
    skipped += [folder for folder in map(realpath, {sys.prefix, sys.base_prefix}) if not top.startswith(folder)]
    skipped = tuple(os.path.join(folder, "") for folder in [top + ".git", *skipped])
    folders = os.environ.get("SWEEP_INPUT_FOLDERS", "").split("\n")
    inputs = tuple(os.path.join(folder, "") for folder in folders if folder)
    library = os.path.join(os.path.dirname(os.__file__), "")

    def escaped(path):
        data = fsencode(path)
        return data.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")

    # False while a process looks at modules for itself, not for the program.
    counts = True

    def say(*fields):
        # Opened for each line: a program may close all files that it does not know.
        file = os_open(reads, O_WRONLY | O_APPEND)
        try:
            write(file, b"\t".join(fields) + b"\n")
        finally:
            close(file)

    def source(path):
        """The source of a compiled module; the path itself for any other file."""
        if not path.endswith(".pyc"):
            return path
        folder, name = path.rsplit("/", 1)
        if not folder.endswith("__pycache__"):
            return path
        return os.path.join(folder[: -len("__pycache__")], name.split(".", 1)[0] + ".py")

    def installed(path):
        """Records a file of an installed package; false for any other file."""
        for name in ("/site-packages/", "/dist-packages/"):
            at = path.find(name)
            if at >= 0:
                break
        else:
            return False
        if path.endswith((".pth", ".egg-link")):
            return True
        inner = path[at + len(name) :]
        if inner.startswith("__pycache__/"):
            inner = inner[len("__pycache__/") :]
        module = inner.split("/", 1)[0]
        if module.endswith((".dist-info", ".egg-info")):
            return True
        if "/" not in inner:
            module = module.split(".", 1)[0]
        folder = path[: at + len(name) - 1]
        if (folder, module) not in seen:
            seen.add((folder, module))
            say(b"package", escaped(os.path.abspath(folder)), escaped(module))
        return True

    def importer():
        """The file of the statement that imports, which is not of the standard library."""
        try:
            frame = getframe(2)
            while frame is not None:
                name = frame.f_code.co_filename
                # The import system, `runpy`, and this file.
                if not name.startswith("<frozen ") and name != __file__ and not name.startswith(library):
                    return b"" if name.startswith("<") else escaped(absolute(name) if aids else realpath(name))
                frame = frame.f_back
        except ValueError:
            pass
        return b""

    def absolute(path):
        return path if path.startswith("/") else os.path.join(os.getcwd(), path)

    def read(path):
        path = source(absolute(path))
        if aids:
            # No look at any file: the kernel would report that, too.
            if path not in seen and path.endswith((".py", ".so", ".pyc")) and not path.startswith(library):
                seen.add(path)
                if "/site-packages/" not in path and "/dist-packages/" not in path:
                    say(b"by", escaped(path), importer())
            return
        # Caches of compilers, such as numba's, are what the sources give.
        if path in seen or "/__pycache__/" in path or installed(path) or path.startswith(library):
            return
        if len(seen) < 200_000 or path.startswith(top):
            seen.add(path)
        real = realpath(path)
        if not real.startswith(top) or real.startswith(skipped) or installed(real):
            return
        is_code = real.endswith((".py", ".so", ".pyc"))
        by = importer() if is_code else b""
        state = stat(real)
        if state.st_mode & 0o170000 != 0o100000:
            return
        numbers = [b"%d" % number for number in (state.st_size, state.st_mtime_ns, state.st_ino)]
        say(b"read", *numbers, escaped(real), by)

    def written(path):
        path = absolute(path)
        if aids or ("write", path) in seen or "__pycache__" in path:
            return
        seen.add(("write", path))
        # Of a link itself, not of what it leads to.
        real = os.path.join(realpath(os.path.dirname(path)), os.path.basename(path))
        for real in {real, realpath(path)}:
            if real.startswith(inputs) or real.startswith(top) and not real.startswith(skipped):
                say(b"write", escaped(real))

    def text(path):
        """A path as text; nothing for a file that is open already, or for what is no path."""
        if type(path) is str:
            return path
        if isinstance(path, int) or path is None:
            return None
        path = fspath(path)
        return os.fsdecode(path) if isinstance(path, bytes) else path

    # Modules that list the folders of Python's path for the versions of installed packages.
    listers = ("<frozen importlib", os.path.join(library, "importlib", "metadata", ""))
    copies = ("/importlib_metadata/__init__.py", "/pkg_resources/__init__.py")

    def is_lister(name):
        return name.startswith(listers) or name.endswith(copies)

    def wants(name, folders):
        """Records that a module is looked for: on the path, or in these folders of its package."""
        if folders is None:
            for folder in sys.path:
                if ("path", folder) not in seen and type(folder) is str:
                    seen.add(("path", folder))
                    say(b"path", escaped(absolute(folder or ".")))
            if ("wants", name) not in seen:
                seen.add(("wants", name))
                say(b"wants", escaped(name))
            return
        name = name.rpartition(".")[2]
        for folder in folders:
            if ("wants", name, folder) in seen or folder.startswith(library):
                continue
            seen.add(("wants", name, folder))
            if "/site-packages/" not in folder and "/dist-packages/" not in folder:
                say(b"wants", escaped(name), escaped(absolute(folder)))

    class Listener:
        """Hears of every module that is looked for, also by `importlib.util.find_spec`, and finds none."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            try:
                if counts:
                    wants(name, path)
            except Exception:
                pass
            return None

    # Events of changes to folders, with the number of paths that each has first.
    changes = {"os.rename": 2, "os.remove": 1, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1, "os.link": 2, "os.symlink": 1}

    def hook(event, arguments):
        if not counts and event != "os.listdir":
            return
        if event == "open":
            try:
                path, mode, flags = arguments
                if path == reads:
                    return
                path = text(path)
                if path is None:
                    return
                if mode is not None:
                    reading, writing = "r" in mode, "+" in mode or "r" not in mode
                else:
                    access = (flags or 0) & O_ACCMODE
                    reading = access != O_WRONLY and not (flags or 0) & O_TRUNC
                    writing = access != O_RDONLY
                try:
                    if reading:
                        read(path)
                finally:
                    if writing:
                        written(path)
            except Exception:
                pass
        elif event == "os.listdir":
            try:
                if aids and is_lister(getframe(1).f_code.co_filename):
                    say(b"lists", escaped(absolute(text(arguments[0]) or ".")))
            except Exception:
                pass
        elif event == "import":
            try:
                # Only of an extension module the file is known here.
                path = text(arguments[1])
                if path:
                    read(path)
            except Exception:
                pass
        elif event in ("ctypes.dlopen", "sqlite3.connect"):
            try:
                path = text(arguments[0])
                # A name without a folder is looked for among the system's libraries.
                if path and ("/" in path or event == "sqlite3.connect"):
                    try:
                        read(path)
                    finally:
                        if event == "sqlite3.connect":
                            written(path)
            except Exception:
                pass
        elif event in changes:
            try:
                # A link is made at the second path; the first is where it leads.
                for path in arguments[1:2] if event == "os.symlink" else arguments[: changes[event]]:
                    path = text(path)
                    if path:
                        written(path)
            except Exception:
                pass
        elif event == "cpython.run_file":
            try:
                path = text(arguments[0])
                if path:
                    read(path)
            except Exception:
                pass

    def modules():
        """Modules that were imported before, and those that were found without opening a file."""
        if aids:
            return
        for module in list(sys.modules.values()):
            try:
                path = getattr(module, "__file__", None)
                if type(path) is str and path != __file__:
                    read(path)
            except Exception:
                pass

    say(b"begin", b"%d" % os.getpid())
    modules()
    sys.addaudithook(hook)
    if aids:
        sys.meta_path.insert(0, Listener)
        # The import system has listed folders, some of them twice if they changed: this path, which is not there, tells the
        # kernel's observer that they were no reads of the program.
        try:
            close(os_open(reads + ".started", O_RDONLY))
        except OSError:
            pass
    import atexit

    atexit.register(modules)

    def continues(path, counts_now):
        """Reports to another file from now on: a forked process to that of its job."""
        nonlocal reads, counts
        reads, counts = path, counts_now

    if os.environ.get("SWEEP_FORKS"):
        sys._sweep_continues = continues


def _next():
    """Imports the module that would have this name without this one, and leaves this folder out of the path."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]
    del sys.modules["sitecustomize"]
    import sitecustomize  # noqa: F401


try:
    _observe()
except Exception:
    pass
_own = sys.modules.get("sitecustomize")
try:
    _next()
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
    if _own is not None:
        sys.modules["sitecustomize"] = _own
