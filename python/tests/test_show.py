"""Reports in notebooks, through the program itself (`SWEEP_BIN`)."""

import contextlib
import html.parser
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import driver

sys.path.insert(0, str(driver.MODULE))

import sweep

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>"
STUDY = f"""\
name: study
steps:
  a:
    uses: command
    matrix: {{ lr: [0.1, 0.2], name: [plain, "{HOSTILE}"] }}
    with: {{ run: "echo loss=${{{{ matrix.lr }}}}", env: {{ NAME: "${{{{ matrix.name }}}}" }} }}
tables: {{ t: {{ title: "{HOSTILE}", from: a, rows: [name], columns: [lr], cells: [loss] }} }}
figures: {{ f: {{ title: "{HOSTILE}", from: a, kind: bar, x: name, y: loss }} }}
claims:
  c: {{ says: "{HOSTILE}", value: {{ metric: loss, of: {{ step: a, lr: 0.1 }} }}, expect: {{ at_most: 9 }} }}
"""
#: A notebook of marimo, with places for the folder of the module, the recipe and the results.
NOTEBOOK = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import sys

    sys.path.insert(0, {!r})
    import sweep

    sweep.show({!r}, {!r})
    return
"""
#: Elements without an end.
VOID = {"br", "img", "meta", "hr", "input", "link"}


class Elements(html.parser.HTMLParser):
    """The elements of a document, and those that are not closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: List[str] = []
        self.attributes: List[Tuple[str, Optional[str]]] = []
        self.open: List[str] = []
        self.wrong: List[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def environment(folder: Path) -> Dict[str, str]:
    return {**driver.clean_environment(), "SWEEP_LOCKS": str(folder), "SWEEP_BIN": os.environ["SWEEP_BIN"]}


@unittest.skipUnless("SWEEP_BIN" in os.environ, "SWEEP_BIN does not name the program")
class Show(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="sweep-python-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name)
        (cls.root / "study.yaml").write_text(STUDY)
        command = [os.environ["SWEEP_BIN"], "run", "study.yaml"]
        ended = subprocess.run(
            command, cwd=cls.root, env=environment(cls.root), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        cls.results, cls.recipe = cls.root / "results", cls.root / "study.yaml"

    def test_html_has_tables_figures_and_verdicts_and_hostile_names_are_text(self) -> None:
        text = sweep.show(self.recipe, self.results)._repr_html_()
        found = Elements(text)
        self.assertEqual((found.open, found.wrong), ([], []))
        self.assertEqual((found.names.count("table"), found.names.count("svg")), (1, 1))
        self.assertFalse({"script", "img", "iframe", "link", "button"} & set(found.names), found.names)
        self.assertEqual(found.names.count("style"), 1)
        handlers = [name for name, _ in found.attributes if name.startswith("on") or name == "id"]
        self.assertEqual(handlers, [])
        self.assertEqual(text.count("&lt;img src=x onerror=alert(2)&gt;") > 3, True)
        for word in ["undecided", "lr=0.1", "0.200"]:
            self.assertIn(word, text)

    def test_text_for_a_terminal(self) -> None:
        shown = sweep.show(self.recipe, self.results)
        self.assertEqual(repr(shown), f"<report of {self.recipe}>")
        self.assertIn("0.100", str(shown))
        self.assertIn("undecided", str(shown))

    def test_jobs_that_are_not_done_and_mistakes(self) -> None:
        notes = io.StringIO()
        with contextlib.redirect_stderr(notes):
            shown = sweep.show(self.recipe, self.root / "none")
        self.assertIn("not run", shown._repr_html_())
        empty = self.root / "empty.yaml"
        empty.write_text("name: empty\nsteps: { a: { uses: command, with: { run: echo loss=1 } } }\n")
        with self.assertRaises(sweep.ResultsError) as raised:
            sweep.show(empty, self.results)
        self.assertIn("empty has no tables and no claims", str(raised.exception))
        with self.assertRaises(sweep.ResultsError) as raised:
            sweep.show(self.root / "nothing.yaml", self.results)
        self.assertIn("nothing.yaml", str(raised.exception))

    @unittest.skipUnless(
        importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"), "there is no nbclient"
    )
    def test_in_a_real_notebook(self) -> None:
        import nbclient
        import nbformat

        code = f"import sys; sys.path.insert(0, {str(driver.MODULE)!r})\nimport sweep\n"
        code += f"sweep.show({str(self.recipe)!r}, {str(self.results)!r})"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        nbclient.NotebookClient(notebook, timeout=driver.PATIENCE).execute()
        outputs = notebook.cells[0].outputs
        data = [output["data"] for output in outputs if output["output_type"] == "execute_result"]
        self.assertEqual(len(data), 1, json.dumps(outputs))
        self.assertIn("<svg", data[0]["text/html"])
        self.assertIn("<report of", data[0]["text/plain"])

    @unittest.skipUnless(importlib.util.find_spec("marimo"), "there is no marimo")
    def test_in_marimo(self) -> None:
        notebook = self.root / "notebook.py"
        notebook.write_text(NOTEBOOK.format(str(driver.MODULE), str(self.recipe), str(self.results)))
        page = self.root / "notebook.html"
        command = [sys.executable, "-m", "marimo", "--quiet", "export", "html", str(notebook), "--output", str(page)]
        ended = subprocess.run(
            [*command, "--no-include-code"],
            cwd=self.root,
            env={**os.environ, **environment(self.root), "HOME": str(self.root)},
            capture_output=True,
            text=True,
            timeout=driver.PATIENCE,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        text = page.read_text()
        # The output of a cell is in a text of JSON in the page.
        self.assertIn("text/html", text)
        self.assertIn("sweep-report", text)
        self.assertIn("viewBox", text)
        self.assertNotIn(HOSTILE, text)


if __name__ == "__main__":
    unittest.main()
