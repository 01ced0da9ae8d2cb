#!/usr/bin/env python3
"""Runs the examples in pages of the documentation, and compares their output with the output that the pages show.

    scripts/cookbook.py PROGRAM [PAGE…]

PROGRAM is `sweep`. Without a PAGE, the cookbook, the questions and the pages for users of other tools are checked.
Exit code 1 if an example fails or prints something else; each difference is printed.

Each section (`## `) of a page has a fresh folder. The blocks of code of a page are:

- a file, if the paragraph before the block says "Save this as `NAME`.";
- `sh`: commands, which run in the folder of the section, with `sweep` on the PATH and the module `sweep` for Python;
- `text` after `sh`: lines of the output of all commands of the block before, in this order. `…` stands for any text
  in a line, and in a line of its own for any lines; lines before the first and after the last may be left out. The
  widths of columns do not count;
- `python`, `yaml`, `snakemake` and `bash` without a name: examples of other tools. They are not run. The syntax of
  `python` and `bash` is checked, and that each line of the others is a key, an item or a value.

The text before the first section belongs to all sections: its files are there, and its commands have run.

A line `<!-- needs: PROGRAM -->` in a section names a program without which the section is skipped, and
`<!-- needs: module NAME -->` a module of `python` on the PATH, or else of `python3`. `<!-- not run: REASON -->` before
a block of `sh` says why its commands are not run. All of these are printed.
"""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ["wandb", "hydra", "optuna", "ray-tune", "snakemake"]
PAGES = ["cookbook.md", "faq.md", *(f"from-{tool}.md" for tool in TOOLS)]
NAMED = re.compile(r"[Ss]ave (?:this|it|the [^`]*?) as `([^`]+)`[^`]*$")
LANGUAGES = ["python", "yaml", "json", "c", "r", "sh", "bash", "snakemake", "text"]
LIMIT_S = 60


class Block(NamedTuple):
    """A block of code: its language, its lines, the name of the file that it is, and the reason why it is not run."""

    line: int
    language: str
    lines: list[str]
    name: str | None
    not_run: str | None

    @property
    def text(self) -> str:
        """The whole block."""
        return "\n".join(self.lines) + "\n"


class Section(NamedTuple):
    """A section of a page: its title, its blocks, and the programs that it needs."""

    title: str
    blocks: list[Block]
    needs: list[str]


class Wrong(Exception):
    """A difference between a page and the program, with its place."""


def sections(text: str) -> list[Section]:
    """The sections of a page; the first one is the text before the first heading of a section."""
    found = [Section("", [], [])]
    paragraph: list[str] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("## "):
            found.append(Section(line[3:], [], []))
            paragraph = []
        elif line.startswith("<!-- needs: "):
            found[-1].needs.append(line.removeprefix("<!-- needs: ").removesuffix(" -->"))
        elif line.startswith("```"):
            begin = number
            while number < len(lines) and lines[number] != "```":
                number += 1
            if number == len(lines):
                raise Wrong(f"line {begin}: the block has no end")
            before = " ".join(paragraph)
            name = NAMED.search(before)
            not_run = re.search(r"<!-- not run: (.*?) -->", before)
            block = lines[begin:number]
            reason = not_run[1] if not_run else None
            found[-1].blocks.append(Block(begin, line[3:].strip(), block, name[1] if name else None, reason))
            paragraph = []
            number += 1
        elif line.strip():
            # A block belongs to the paragraph directly before it.
            paragraph = [*paragraph, line] if number > 1 and lines[number - 2].strip() else [line]
    return found


def words(line: str) -> str:
    """A line without the widths of its columns."""
    return re.sub("─+", "─", " ".join(line.split()))


def pattern(lines: list[str]) -> re.Pattern[str]:
    """An expression that finds these lines in an output, in this order."""
    parts = []
    for line in map(words, lines):
        if line == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(map(re.escape, line.split("…"))) + r"\n")
    return re.compile("^" + "".join(parts), re.MULTILINE)


def syntax(block: Block) -> None:
    """Checks an example of another tool as far as that is possible without the tool."""
    if block.language == "python":
        try:
            ast.parse(block.text)
        except SyntaxError as error:
            raise Wrong(f"line {block.line + (error.lineno or 0)}: {error.msg}") from None
    elif block.language == "bash":
        ended = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise Wrong(f"line {block.line}: {ended.stderr.strip()}")
    elif block.language in ("yaml", "snakemake"):
        form = re.compile(r'\s*(#.*|- .+|(rule )?[\w./-]+:( .*)?|".*",?|\w+ ?=.*|\w+\(.*\),?|)')
        for offset, line in enumerate(block.lines):
            if "\t" in line or not form.fullmatch(line):
                raise Wrong(f"line {block.line + offset + 1}: neither a key nor an item nor a value: {line}")
    else:
        raise Wrong(f"line {block.line}: a block of `{block.language}` needs a sentence that names its file")


def shell(block: Block, folder: pathlib.Path, environment: dict[str, str]) -> str:
    """Runs the commands of a block; returns all that they print."""
    command = ["sh", "-euc", "exec 2>&1\n" + block.text]
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Wrong(f"line {block.line}: the commands take longer than {LIMIT_S} s:\n{block.text}") from None
    if ended.returncode != 0:
        raise Wrong(f"line {block.line}: exit code {ended.returncode} of\n{block.text}\nwhich printed\n{ended.stdout}")
    return ended.stdout


def perform(blocks: list[Block], folder: pathlib.Path, environment: dict[str, str]) -> tuple[int, list[str]]:
    """Writes the files, runs the commands, compares the outputs; returns the number of commands and the notes."""
    printed: str | None = None
    commands = 0
    notes = []
    for block in blocks:
        if block.language not in LANGUAGES:
            raise Wrong(f"line {block.line}: `{block.language}` is none of {', '.join(LANGUAGES)}")
        if block.name is not None:
            path = folder / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "sh" and block.not_run is not None:
            notes.append(f"line {block.line} is not run: {block.not_run}")
        elif block.language == "sh":
            printed = shell(block, folder, environment)
            commands += len(re.findall(r"(?:^|[|&;] |\d )sweep ", block.text, re.MULTILINE))
        elif block.language == "text":
            if printed is None:
                raise Wrong(f"line {block.line}: no commands are before this output")
            output = "".join(words(line) + "\n" for line in printed.splitlines())
            fitting = [n for n in range(len(block.lines) + 1) if pattern(block.lines[:n]).search(output)]
            if len(block.lines) not in fitting:
                first = max(fitting)
                missing = f"line {block.line + first + 1}: `{block.lines[first].strip()}` is not in its place"
                raise Wrong(f"{missing}; the page shows\n{block.text}\nand the commands print\n{printed}")
        else:
            syntax(block)
    return commands, notes


def lacks(need: str) -> bool:
    """True if a program is not on the PATH, or the Python there does not have a module."""
    module = need.removeprefix("module ")
    if module == need:
        return not shutil.which(need)
    python = shutil.which("python") or "python3"
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode != 0


def check(page: str, found: list[Section], environment: dict[str, str]) -> int:
    """Checks the sections of a page; returns the number of those that are wrong."""
    beginning, *rest = found
    wrong = 0
    for section in rest or [Section("", [], [])]:
        place = f"{page}: {section.title}" if section.title else page
        missing = [need for need in section.needs if lacks(need)]
        if missing:
            print(f"{place}: skipped, because this machine lacks {', '.join(missing)}", flush=True)
            continue
        if not section.blocks and rest:
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            # Exclusive jobs wait for each other below this folder only.
            own = environment | {"SWEEP_LOCKS": folder}
            study = pathlib.Path(folder) / "study"
            study.mkdir()
            try:
                commands, notes = perform([*beginning.blocks, *section.blocks], study, own)
            except Wrong as error:
                wrong += 1
                print(f"{place}: WRONG: {error}", flush=True)
                continue
        for note in notes:
            print(f"{place}: {note}", flush=True)
        print(f"{place}: {commands} commands, {time.monotonic() - begun:.1f} s", flush=True)
    return wrong


def main() -> int:
    """Checks the pages; returns the exit code."""
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    program = pathlib.Path(sys.argv[1]).resolve()
    pages = [pathlib.Path(page) for page in sys.argv[2:]] or [ROOT / "docs" / page for page in PAGES]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "sweep").symlink_to(program)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SWEEP_")}
        environment |= {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "python"), "NO_COLOR": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
        for page in pages:
            try:
                wrong += check(page.name, sections(page.read_text()), environment)
            except Wrong as error:
                wrong += 1
                print(f"{page.name}: WRONG: {error}")
    print(f"{wrong} differences" if wrong else "all examples print what the pages show")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
