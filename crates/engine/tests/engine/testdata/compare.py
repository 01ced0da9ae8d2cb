"""Reads the parameters of each script in both ways, from its syntax tree and by running it, and prints where the answers differ.

    compare.py PARTS [PYTHON]

PARTS is the folder of the probe's parts. PYTHON has the packages of the scripts; without those of a script, its run is left out.
One line of JSON for each script: its name, what the tree shows, and the differences.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
# The parts of both programs, as `probe.rs` joins them.
READER = [
    "probe",
    "fields",
    "values",
    "statements",
    "calls",
    "expressions",
    "tree",
    "models",
    "classes",
    "commands",
    "others",
    "read",
]
RUNNER = ["probe", "fields", "patches", "guard"]
# Arguments with which scripts are read, too: those that choose a command.
ARGUMENTS = {
    "argparse-5.py": [["train"], ["eval"]],
    "click-2.py": [["train"], ["evaluate"]],
    "docopt-1.py": [["data"]],
    "docopt-2.py": [["train"]],
    "fire-3.py": [["train"]],
    "fire-4.py": [["eval"]],
    "jsonargparse-3.py": [["train"]],
    "typer-3.py": [["train"], ["test"], ["data", "fetch"]],
}


def ask(python, parts, names, script, arguments):
    code = "\n".join((parts / f"{name}.py").read_text() for name in names)
    # As `probe.rs` does: what is read is longer than an argument may be.
    by_input = names is READER
    command = [*python, "-I", "-"] if by_input else [*python, "-c", code]
    command += ["10", script, *arguments]
    text = code if by_input else ""
    ended = subprocess.run(command, input=text, cwd=SCRIPTS, capture_output=True, text=True, timeout=60)
    if ended.returncode != 0:
        return {"source": "failed", "parameters": [], "why": ended.stderr[-2000:]}
    return json.loads(ended.stdout)


def differences(read, run):
    """What differs between two answers, apart from descriptions."""
    found = []
    if read["source"] != run["source"] or sorted(read.get("commands", [])) != sorted(run.get("commands", [])):
        found.append(
            f"{read['source']} {read.get('commands')} is {run['source']} {run.get('commands')} {run.get('why', '')}"
        )
    names = [[entry["name"] for entry in answer["parameters"]] for answer in (read, run)]
    if names[0] != names[1]:
        found.append(f"the names {names[0]} are {names[1]}")
    keys = ("style", "default", "choices", "required", "negative", "option")
    for first in read["parameters"]:
        for second in run["parameters"]:
            if first["name"] == second["name"]:
                pairs = [(key, first.get(key), second.get(key)) for key in keys]
                found += [
                    f"{first['name']}: {key} {a!r} is {b!r}" for key, a, b in pairs if (a, type(a)) != (b, type(b))
                ]
    return found


def compare(parts, python, script, arguments):
    read = ask([sys.executable], parts, READER, script, arguments)
    answer = {"script": " ".join([script, *arguments]), "read": read, "differences": []}
    # No run shows these: nothing parses them.
    if python and read["source"] != "environment":
        run = ask([python], parts, RUNNER, script, arguments)
        if run["source"] == "broken" and run.get("module"):
            answer["absent"] = run["module"]
        elif read.get("whole"):
            answer["differences"] = differences(read, run)
        else:
            # A part of the answer is right as far as it goes.
            known = [entry["name"] for entry in run["parameters"]]
            entries = [entry for entry in read["parameters"] if not entry.get("note") and entry["name"] in known]
            names = [entry["name"] for entry in entries]
            part = dict(run, parameters=[entry for entry in run["parameters"] if entry["name"] in names])
            answer["differences"] = differences(dict(read, parameters=entries), part) if entries else []
        answer["run"] = run
    return answer


def main():
    parts, python = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    scripts = sorted(path.name for path in SCRIPTS.glob("*-*.py"))
    cases = [(script, arguments) for script in scripts for arguments in [[], *ARGUMENTS.get(script, [])]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for answer in pool.map(lambda case: compare(parts, python, *case), cases):
            print(json.dumps(answer))


if __name__ == "__main__":
    main()
