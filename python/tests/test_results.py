"""Results as frames, through the program itself (`SWEEP_BIN`)."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import driver

sys.path.insert(0, str(driver.MODULE))

import sweep

STUDY = """\
name: study
steps:
  small: { uses: command, matrix: { lr: [0.1, 0.2], seed: [0, 1] }, with: { run: "echo loss=${{ matrix.lr }}" } }
  other: { uses: command, with: { run: echo loss=7 } }
"""
FRAMES = [name for name in ("pandas", "polars") if importlib.util.find_spec(name)]


@unittest.skipUnless("SWEEP_BIN" in os.environ, "SWEEP_BIN does not name the program")
class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="sweep-python-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name)
        (cls.root / "study.yaml").write_text(STUDY)
        environment = {**driver.clean_environment(), "SWEEP_LOCKS": cls.folder.name}
        command = [os.environ["SWEEP_BIN"], "run", "study.yaml"]
        ended = subprocess.run(command, cwd=cls.root, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        cls.results, cls.recipe = cls.root / "results", cls.root / "study.yaml"

    @unittest.skipUnless(FRAMES, "neither pandas nor polars is installed")
    def test_frames(self) -> None:
        for frame in FRAMES:
            found = sweep.results(self.results, self.recipe, "small", frame=frame, sort=["-loss", "seed"])
            self.assertTrue(type(found).__module__.startswith(frame), type(found))
            falling = [0.2, 0.2, 0.1, 0.1]
            for name, expected in [("lr", falling), ("seed", [0, 1, 0, 1]), ("loss", falling)]:
                self.assertEqual(list(found[name]), expected, (frame, name))
            everything = sweep.results(str(self.results), frame=frame)
            self.assertEqual((len(everything), "key" in everything.columns), (5, True))
            few = sweep.results(self.results, where=["loss > 0.15", "loss < 5"], select=["loss", "host"], frame=frame)
            self.assertEqual((list(few.columns), len(few)), (["loss", "host"], 2))
            none = sweep.curves(self.results, self.recipe, frame=frame)
            self.assertEqual((len(none), list(none.columns)[-3:]), (0, ["series", "step", "value"]))

    @unittest.skipUnless("pandas" in FRAMES, "pandas is not installed")
    def test_without_a_reader_of_parquet(self) -> None:
        from sweep import _results

        there = _results._is_there
        _results._is_there = lambda name: name != "pyarrow" and there(name)
        try:
            found = sweep.results(self.results, self.recipe, "small", frame="pandas", sort=["lr", "seed"])
        finally:
            _results._is_there = there
        self.assertEqual((list(found["loss"]), list(found["seed"])), ([0.1, 0.1, 0.2, 0.2], [0, 1, 0, 1]))

    @unittest.skipUnless(FRAMES, "neither pandas nor polars is installed")
    def test_mistakes_have_the_words_of_the_program(self) -> None:
        for call, text in [
            (lambda: sweep.results(self.results, select=["los"]), "did you mean `loss`?"),
            (lambda: sweep.results(self.results, self.root / "none.yaml"), "none.yaml"),
            (lambda: sweep.results(self.root / "nothing"), "there is no such folder"),
            (lambda: sweep.results(self.results, step="small"), "give `recipe`, too"),
            (lambda: sweep.results(self.results, frame="arrow"), "`frame` is 'pandas' or 'polars', not 'arrow'"),
            (lambda: sweep.curves(self.results, series="loss"), "no record has `loss`; there are no curves"),
        ]:
            with self.assertRaises(sweep.ResultsError) as raised:
                call()
            self.assertIn(text, str(raised.exception))


class NoProgram(unittest.TestCase):
    def test_a_missing_program_is_said(self) -> None:
        driver.by_hand(
            """
            import sweep._results as own
            try:
                own.binary()
            except own.ResultsError as error:
                assert "SWEEP_BIN is /nowhere/sweep, which is no program" in str(error), error
            """,
            SWEEP_BIN="/nowhere/sweep",
        )


if __name__ == "__main__":
    unittest.main()
