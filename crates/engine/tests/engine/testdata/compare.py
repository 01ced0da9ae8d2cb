"""Reads the parameters of each script in both ways, from its syntax tree and by running it, and prints where the answers differ.

    compare.py PARTS [PYTHON]

PARTS is the folder of the probe's parts. PYTHON has the packages of the scripts; without those of a script, its run is left out.
What scripts only work with, and is not installed, is an empty package. `readings.txt` lists the scripts. One line of JSON for each:
its name, what the tree shows, and the differences.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
# The parts of both programs, as `probe.rs` joins them.
READER = "probe fields values statements calls expressions tree models classes commands others configs read".split()
RUNNER = "probe fields patches guard".split()
# Packages that many scripts need, which are imported once.
PACKAGES = "absl.app absl.flags click docopt draccus fire hydra jsonargparse ml_collections ml_collections.config_flags omegaconf".split()
PACKAGES += "optparse pydantic pydantic_settings simple_parsing typer tyro yaml".split()
# Modules that the reader imports itself.
OF_READER = "argparse dataclasses enum inspect optparse typing types resource pathlib io contextlib re".split()
SECONDS = 10


class Anything:
    """What an absent package has: it can be called, and be a base class."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args, **kwargs):
        # A decorator leaves its function.
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Anything()

    def __mro_entries__(self, bases):
        return ()

    def __bool__(self):
        return False

    def __getitem__(self, key):
        return Anything()

    def __iter__(self):
        return iter(())


class Absent:
    """Makes an empty package of each that is not installed, so that scripts that work with it read their parameters."""

    def find_spec(self, name, path=None, target=None):
        import importlib.machinery

        if name.partition(".")[0] in ("transformers", "lightning", "pytorch_lightning", "no_such_package"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__path__ = []
        module.__getattr__ = Anything().__getattr__


def serve(names, modules):
    """Answers each line of standard input, a script and its arguments, with a line: each in a process of its own, which has the modules already."""
    import importlib

    for module in modules.split():
        try:
            importlib.import_module(module)
        except ImportError:
            pass
    sys.meta_path.append(Absent())
    code = compile(pathlib.Path(names).read_text(), "<string>", "exec")
    for line in sys.stdin:
        script, *arguments = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(writer, 1)
            os.close(writer)
            sys.argv = ["-c", str(SECONDS), script, *arguments]
            exec(code, {"__name__": "__main__"})
            os._exit(1)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            answer = file.read()
        os.waitpid(child, 0)
        print(answer.decode() or json.dumps({"source": "failed", "parameters": [], "why": "no answer"}), flush=True)


def ask(python, names, modules, cases):
    """The answers for scripts with arguments."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    code = "import sys; sys.path[0] = %r; from compare import serve; sys.path[0] = ''; serve(*sys.argv[1:])" % str(SCRIPTS.parent)
    command = [python, "-c", code, str(names), " ".join(modules)]
    ended = subprocess.run(command, input=lines, cwd=SCRIPTS, capture_output=True, text=True, timeout=300)
    if ended.returncode != 0:
        sys.exit(ended.stderr)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def cases():
    """The scripts of Python with their arguments."""
    for line in (SCRIPTS / "readings.txt").read_text().splitlines():
        case = line.partition(" -> ")[0].split()
        if case and case[0].endswith((".py", ".ipynb")):
            yield case


def differences(read, run):
    """What differs between two answers, apart from descriptions."""
    found = []
    if read["source"] != run["source"] or sorted(read.get("commands", [])) != sorted(run.get("commands", [])):
        found.append(f"{read['source']} {read.get('commands')} is {run['source']} {run.get('commands')} {run.get('why', '')}")
    names = [[entry["name"] for entry in answer["parameters"]] for answer in (read, run)]
    if names[0] != names[1]:
        found.append(f"the names {names[0]} are {names[1]}")
    keys = ("style", "default", "choices", "required", "negative", "option", "least", "most")
    for first in read["parameters"]:
        for second in run["parameters"]:
            if first["name"] == second["name"]:
                pairs = [(key, first.get(key), second.get(key)) for key in keys]
                found += [f"{first['name']}: {key} {a!r} is {b!r}" for key, a, b in pairs if (a, type(a)) != (b, type(b))]
    return found


def compare(case, read, run):
    answer = {"script": " ".join(case), "read": read, "differences": []}
    # No run shows these: nothing parses them.
    if run is None or read["source"] == "environment":
        return answer
    if run["source"] == "broken" and run.get("module"):
        answer["absent"] = run["module"]
    elif read.get("whole"):
        answer["differences"] += differences(read, run)
    else:
        # A part of the answer is right as far as it goes.
        known = [entry["name"] for entry in run["parameters"]]
        entries = [entry for entry in read["parameters"] if not entry.get("note") and entry["name"] in known]
        names = [entry["name"] for entry in entries]
        part = dict(run, parameters=[entry for entry in run["parameters"] if entry["name"] in names])
        answer["differences"] += differences(dict(read, parameters=entries), part) if entries else []
    return dict(answer, run=run)


def main():
    parts, python = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    known = list(cases())
    # A notebook is never run.
    scripts = [case for case in known if case[0].endswith(".py")]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        programs = []
        for names in (READER, RUNNER):
            programs.append(pathlib.Path(folder, names[-1]))
            programs[-1].write_text("\n".join((parts / f"{name}.py").read_text() for name in names))
        reads = pool.submit(ask, sys.executable, programs[0], OF_READER, known)
        runs = pool.submit(ask, python, programs[1], PACKAGES, scripts) if python else None
        ran = {tuple(case): run for case, run in zip(scripts, runs.result())} if runs else {}
        for case, read in zip(known, reads.result()):
            print(json.dumps(compare(case, read, ran.get(tuple(case)))))


if __name__ == "__main__":
    main()
