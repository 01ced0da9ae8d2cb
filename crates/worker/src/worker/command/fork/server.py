"""Imports what a script imports first, and forks a process for each job of `sweep` (`launch: fork`).

Standard input is a socket to the worker. A request is a line of JSON, in which every text is hexadecimal:

    {"prepare": argument index of the script, "argv": [...]}   imports the modules; answers
                                                               {"prepared": {"files": [...], "sources": [...]}} or {"refused": reason}
    {"stub": process, "worker": process, "argv": [...], "env": {...}, "cwd": ..., "started": ..., "reads": ...}
                                                               forks; answers {"process": process} or {"refused": reason}

Only the imports count that the script runs before anything else than imports, definitions and constants, in this order: a module
that reads a variable which the script sets before its import is not imported early. Of these, modules of the project are not
imported themselves, but what they import.
"""

import sys

# A module of the project may have the name of one that is imported here. There is no folder if options keep it off the path.
HAS_FOLDER = sys.path[:1] == [""]
del sys.path[:HAS_FOLDER]

import ast
import atexit
import ctypes
import gc
import io
import json
import os
import signal
import socket
import sysconfig
import threading
import types
import warnings
from importlib.machinery import PathFinder, SourceFileLoader

LIBRARIES = tuple(
    os.path.join(os.path.realpath(path), "") for key, path in sysconfig.get_paths().items() if key in ("stdlib", "platstdlib")
)
SITES = ("/site-packages/", "/dist-packages/")
# Names of constants of the kernel that Python has no functions for.
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
CAPABILITY_VERSION = 0x20080522
# Variables of which each job has its own value.
OF_JOB = ("PYTHONPATH", "PWD", "OLDPWD")


def is_outside(path):
    """True for a file of the standard library or of an installed package."""
    return any(site in path for site in SITES) or os.path.realpath(path).startswith(LIBRARIES)


class Plan:
    """The imports of a script that come first, as (module, names), and the sources that say so."""

    def __init__(self, script, folder):
        self.path = path_from(folder)
        self.imports = []
        self.sources = {}
        self.goes_on = True
        self.read(script)

    def read(self, source):
        source = os.path.realpath(source)
        if source in self.sources:
            return
        try:
            with open(source, "rb") as file:
                self.sources[source] = file.read()
            body = ast.parse(self.sources[source]).body
        except (OSError, SyntaxError, ValueError):
            self.goes_on = False
            return
        for statement in body:
            self.statement(statement, source)
            if not self.goes_on:
                return

    def statement(self, node, source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.wanted(alias.name, None)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                self.goes_on = False
            else:
                self.wanted(node.module, [alias.name for alias in node.names])
        elif isinstance(node, ast.Try) and all(isinstance(part, (ast.Import, ast.ImportFrom)) for part in node.body):
            for part in node.body:
                self.statement(part, source)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.goes_on = not node.decorator_list
        elif isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
            self.goes_on = is_constant(node.value)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            self.goes_on = False

    def wanted(self, name, names):
        if not self.goes_on or name == "__future__":
            return
        folders, parts = self.path, name.split(".")
        for index, part in enumerate(parts):
            known = ".".join(parts[: index + 1])
            if known in sys.builtin_module_names:
                break
            try:
                spec = PathFinder.find_spec(known, folders)
            except Exception:
                spec = None
            if spec is None:
                # A module that is not there, which the script may expect, or one that another finder has.
                self.goes_on = known == "sweep"
                return
            if spec.origin not in (None, "built-in", "frozen"):
                if part == "sweep" and index == 0:
                    return
                if is_outside(spec.origin):
                    break
                if not spec.origin.endswith(".py"):
                    self.goes_on = False
                    return
                self.read(spec.origin)
                if not self.goes_on:
                    return
            folders = spec.submodule_search_locations
            if folders is None:
                return
        else:
            # A package of the project: its modules may be among the names.
            for part in names or ():
                spec = PathFinder.find_spec(name + "." + part, folders)
                if spec is not None and spec.origin and spec.origin.endswith(".py"):
                    self.read(spec.origin)
            return
        self.imports.append((name, tuple(names or ())))


def path_from(folder):
    """Python's path of a script in `folder`, or of a module that is started there."""
    folders = [folder] if HAS_FOLDER else []
    return folders + sys.path[Server.inserted :]


def is_constant(node):
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def script_of(argv, index):
    """The path of a script and the first folder of Python's path, or those of the module after `-m`."""
    if argv[index] != "-m":
        script = os.path.abspath(argv[index])
        return script, os.path.dirname(os.path.realpath(script))
    folders = path_from(os.getcwd())
    spec = None
    parts = argv[index + 1].split(".")
    for part in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: part + 1]), folders)
        if spec is None:
            return None, os.getcwd()
        folders = spec.submodule_search_locations
        if folders is not None and part == len(parts) - 1:
            spec = PathFinder.find_spec(argv[index + 1] + ".__main__", folders)
    return spec and spec.origin, os.getcwd()


class Server:
    # Number of folders that stand before those of the interpreter on Python's path.
    inserted = 0

    def __init__(self, line):
        self.line = line
        self.reads = os.environ.get("SWEEP_READS")
        report_to(self.reads, False)
        self.imported = []
        self.sources = {}
        self.changes = {}
        self.printed = []
        self.index = 0
        self.folder = None

    def prepare(self, request):
        self.index = request["prepare"]
        argv = [text(part) for part in request["argv"]]
        script, folder = script_of(argv, self.index)
        if script is None:
            return "the module `%s` is not found" % argv[self.index + 1]
        plan, self.folder = Plan(script, folder), folder
        sys.path[:] = path_from(folder)
        Server.inserted = int(HAS_FOLDER)
        # With what a program does that starts the interpreter, such as a shim of pyenv.
        before = {text(name): text(value) for name, value in request["env"].items()}
        report_to(self.reads, True)
        self.printed = captured(lambda: self.import_all(plan))
        report_to(self.reads, False)
        self.sources = plan.sources
        self.changes = {
            name: os.environ.get(name)
            for name in {*before, *os.environ}
            if before.get(name) != os.environ.get(name) and not name.startswith("SWEEP_") and name not in OF_JOB
        }
        return self.unfit()

    def import_all(self, plan):
        for name, names in plan.imports:
            try:
                __import__(name, {}, {}, names, 0)
            except BaseException:
                # The script fails in the same way, or expects it.
                return
            self.imported.append((name, names))

    @staticmethod
    def unfit():
        """The reason why a fork of this process would not be like a process of its own."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and not is_outside(path) and "sitecustomize" not in path:
                return "`%s` is imported from `%s`, which is no installed package" % (module.__name__, path)
        if threading.active_count() > 1:
            names = ", ".join(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
            return "an import starts threads (%s)" % names
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return "an import initializes CUDA"
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink("/proc/self/fd/" + name)
            except OSError:
                continue
            if target.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri/")):
                return "an import opens the GPU"
        return None

    def files(self):
        paths = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        return sorted(path for path in paths if isinstance(path, str))

    def serve(self):
        """Answers requests; returns in a forked process, with its request."""
        with open(self.line.fileno(), "rb", closefd=False) as lines:
            for text_line in lines:
                request = json.loads(text_line)
                if "prepare" in request:
                    refusal = self.prepare(request)
                    gc.collect()
                    gc.freeze()
                    prepared = {"files": hexadecimal(self.files()), "sources": hexadecimal(self.sources)}
                    self.answer({"refused": refusal} if refusal else {"prepared": prepared})
                    continue
                reader, writer = os.pipe()
                if fork() == 0:
                    os.close(reader)
                    return request, writer
                os.close(writer)
                with open(reader, "rb") as answers:
                    answer = answers.read()
                # The first process of a fork ends at once.
                os.wait()
                self.line.sendall((answer or b'{"refused": "the fork has failed"}') + b"\n")
        os._exit(0)

    def answer(self, answer):
        self.line.sendall(json.dumps(answer).encode() + b"\n")


def captured(function):
    """Calls `function`; returns what the process has written to standard output and standard error meanwhile."""
    kept = []
    for number in (1, 2):
        memory = os.memfd_create("output")
        kept.append((os.dup(number), memory))
        os.dup2(memory, number)
    function()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    texts = []
    for number, (output, memory) in enumerate(kept, 1):
        os.dup2(output, number)
        texts.append(os.pread(memory, os.lseek(memory, 0, os.SEEK_END), 0))
        os.close(output)
        os.close(memory)
    return texts


def report_to(path, counts):
    """Makes the module `sitecustomize` of `sweep`, if it is there, report to `path`; only if `counts`, what this process reads is reported."""
    continues = getattr(sys, "_sweep_continues", None)
    if continues is not None:
        continues(path, counts)


def fork():
    """Forks without Python's warning about threads of libraries, which have handlers for that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def hexadecimal(paths):
    return [os.fsencode(path).hex() for path in paths]


def text(data):
    return os.fsdecode(bytes.fromhex(data))


def enter(request):
    """Makes this process one of the worker's, in the place of its stub."""
    if fork() != 0:
        os._exit(0)
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function, *arguments):
        if function(*arguments) != 0:
            raise OSError(ctypes.get_errno(), function.__name__)

    while os.getppid() != request["worker"]:
        os.sched_yield()
    call(libc.prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    stub = "/proc/%d/" % request["stub"]
    outputs = [os.open(stub + "fd/%d" % number, os.O_WRONLY) for number in (1, 2)]
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    has_entered = False
    for name in ("user", "mnt"):
        if os.readlink(stub + "ns/" + name) == os.readlink("/proc/self/ns/" + name):
            continue
        space = os.open(stub + "ns/" + name, os.O_RDONLY)
        call(libc.setns, space, 0)
        os.close(space)
        has_entered |= name == "user"
    if has_entered:
        # As after the start of a program.
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
        call(libc.capset, header, (ctypes.c_uint32 * 6)())
        call(libc.prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.chdir(text(request["cwd"]))


def begin(server, request):
    """Makes the state that of a process of its own; returns its arguments from the script on."""
    argv = [text(part) for part in request["argv"]]
    environment = {text(name): text(value) for name, value in request["env"].items()}
    report_to(text(request["reads"]), False)
    os.environ.clear()
    os.environ.update(environment)
    try:
        # From here on, the kernel's observer counts what this process does.
        os.close(os.open(text(request["started"]), os.O_RDONLY))
    except OSError:
        pass
    script, folder = script_of(argv, server.index)
    sys.path[:] = path_from(folder)
    sys.orig_argv = [sys.executable, *argv[1:]] if hasattr(sys, "orig_argv") else argv
    sys.argv = argv[server.index :]
    if script is None or not is_planned(server, script, folder):
        os.execve(sys.executable, argv, environment)
    for name, value in server.changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()
    for number, content in enumerate(server.printed, 1):
        os.write(number, content)
    report_to(text(request["reads"]), True)
    sys.__dict__.pop("_sweep_continues", None)
    return script


def is_planned(server, script, folder):
    """True if a process of its own would import first, too, what is imported here."""
    for source, content in server.sources.items():
        # In another folder, other modules may have these names.
        if folder != server.folder:
            break
        try:
            with open(source, "rb") as file:
                if file.read() == content:
                    continue
        except OSError:
            pass
        break
    else:
        return True
    return Plan(script, folder).imports[: len(server.imported)] == server.imported


def run(script):
    """Runs the script as the main module; returns its exit code."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __spec__=None, __annotations__={})
    sys.modules["__main__"] = main
    try:
        if sys.argv[0] == "-m":
            import runpy

            module = sys.argv[1]
            del sys.argv[0]
            runpy._run_module_as_main(module)
        else:
            # Absolute since Python 3.9.
            main.__file__ = script if sys.version_info >= (3, 9) else sys.argv[0]
            main.__cached__ = None
            main.__loader__ = SourceFileLoader("__main__", main.__file__)
            with open(script, "rb") as file:
                source = file.read()
            exec(compile(source, main.__file__, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        # The first frame is that of this function.
        frames = error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def end(code, imported):
    """Ends this process as Python does, but for the objects of the imports, whose memory it would copy to free it."""
    threading._shutdown()
    atexit._run_exitfuncs()
    own = [sys.modules.pop(name) for name in list(sys.modules) if name not in imported]
    for module in own:
        names = [name for name in vars(module) if name != "__builtins__"]
        for name in sorted(names, key=lambda name: not (name[0] == "_" and name[1:2] != "_")):
            vars(module)[name] = None
    del own
    gc.collect()
    # Of objects that the imports have kept, whose ends do not come.
    for value in gc.get_objects():
        if isinstance(value, io.IOBase):
            try:
                value.flush()
            except Exception:
                pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    ctypes.CDLL(None).fflush(None)
    # Not by `exit`, as in processes of `multiprocessing`: destructors of libraries would copy the memory that they free.
    os._exit(code)


def main():
    line = socket.socket(fileno=os.dup(0))
    server = Server(line)
    request, writer = server.serve()
    line.close()
    try:
        enter(request)
        answer = {"process": os.getpid()}
    except BaseException as error:
        answer = {"refused": str(error)}
    os.write(writer, json.dumps(answer).encode())
    os.close(writer)
    if "refused" in answer:
        os._exit(1)
    imported = set(sys.modules) - {"__main__"}
    end(run(begin(server, request)), imported)


main()
