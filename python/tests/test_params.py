"""Parameters: the recipe's, the defaults, and names that nobody has."""

import unittest

from driver import Job, by_hand


class Parameters(unittest.TestCase):
    def test_recipe_overrides_defaults(self) -> None:
        with Job({"lr": 1, "only": "recipe", "opt": {"wd": 0.5}, "betas": [0.8, 0.9]}) as job:
            ended = job.run(
                """
                import json, sweep
                p = sweep.params(..., lr=1e-3, depth=4, opt={"wd": 0.1, "eps": 1e-8}, betas=(0.9, 0.99), name=None)
                assert p.lr == 1 and type(p.lr) is float, p
                assert p["depth"] == 4 and p.depth == 4
                assert p.only == "recipe" and p.get("none", 7) == 7
                assert p.opt.wd == 0.5 and p.opt.eps == 1e-8
                assert p.betas == (0.8, 0.9)
                assert vars(p)["lr"] == 1 and {**p}["depth"] == 4 and json.loads(json.dumps(p))["opt"]["wd"] == 0.5
                assert sorted(p) == ["betas", "depth", "lr", "name", "only", "opt"]
                p.device = "cpu"
                assert p["device"] == "cpu" and hasattr(p, "device") and not hasattr(p, "devices")
                import copy, pickle
                assert pickle.loads(pickle.dumps(p)) == p == copy.deepcopy(p) and type(copy.deepcopy(p.opt)) is type(p)
                """
            )
            self.assertEqual(ended.lines, [])

    def test_unknown_names_have_near_ones(self) -> None:
        with Job({"learning_rate": 0.1}) as job:
            job.run(
                """
                import pickle, sweep
                p = sweep.params(..., depth=4)
                for look in (lambda: p.learning_rat, lambda: p["learning_rat"]):
                    try:
                        look()
                    except (AttributeError, KeyError) as error:
                        text = str(error)
                        assert isinstance(error, AttributeError) and isinstance(error, KeyError)
                        assert str(pickle.loads(pickle.dumps(error))) == text
                    assert "did you mean `learning_rate`?" in text, text
                """
            )

    def test_names_that_only_the_recipe_has_are_errors(self) -> None:
        for given, call, said in [
            ({"learning_rate": 0.1}, "lr=0.5", "`learning_rate`, the defaults of `sweep.params` do not; there are"),
            ({"lr": 0.1, "dept": 3}, "lr=0.5, depth=4", "the defaults of `sweep.params` do not; did you mean `depth`?"),
            ({"opt": {"wdd": 1}}, "opt={'wd': 0.1}", "have `opt.wdd`, the defaults"),
            ({"a": 1, "b": 2, "c": 3, "d": 4}, "e=5", "have `a`, `b`, `c` and others, the"),
            ({"x": None}, "lr=0.5", "have `x`, the"),
        ]:
            with Job(given) as job:
                ended = job.end(job.start(f"import sweep; sweep.params({call})"))
                self.assertEqual(ended.code, 1, (given, call))
                last = ended.stderr.strip().splitlines()[-1]
                self.assertIn(said, last)
                self.assertIn("`sweep.params(..., NAME=DEFAULT)` takes other names, too", last)
        for given, call in [
            ({"learning_rate": 0.1}, ""),
            ({"learning_rate": 0.1}, "..., lr=0.5"),
            ({"kwargs": {"a": 1}}, "kwargs={}"),
            ({"kwargs": {"a": 1}}, "kwargs=None"),
        ]:
            with Job(given) as job:
                ended = job.end(job.start(f"import sweep; p = sweep.params({call}); assert set(p) >= {set(given)!r}"))
                self.assertEqual(ended.code, 0, (given, call, ended.stderr))

    def test_only_dots_come_before_the_defaults(self) -> None:
        with Job({}) as job:
            ended = job.end(job.start("import sweep; sweep.params({'lr': 1})"))
            self.assertIn("TypeError: `sweep.params` takes defaults by their names", ended.stderr)

    def test_kinds_that_do_not_fit_are_errors(self) -> None:
        for value, default, fits in [
            ("1e-3", "0.1", False),
            (0, "True", False),
            ("yes", "True", False),
            (True, "False", True),
            (3, "'text'", True),
            (None, "0.1", True),
            ("adam", "None", True),
        ]:
            with Job({"x": value}) as job:
                ended = job.end(job.start(f"import sweep; sweep.params(x={default})"))
                self.assertEqual(ended.code == 0, fits, (value, default, ended.stderr))
                if not fits:
                    self.assertIn("TypeError: the recipe's `params` give `x` the value", ended.stderr)

    def test_by_hand_the_defaults(self) -> None:
        by_hand(
            """
            import sweep, sys
            sys.argv.append("--lr=5")
            p = sweep.params(lr=1e-3)
            assert p == {"lr": 1e-3} and not sweep.active() and sweep.until(9) == 9 and sweep.scratch() is None
            assert sweep.rank() == 0 and sweep.resume() is None and not sweep.should_stop()
            """
        )


if __name__ == "__main__":
    unittest.main()
