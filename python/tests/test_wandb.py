"""The functions of W&B, held against the real package in its offline mode."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest

from driver import Job, by_hand, clean_environment

#: A script that runs with either; it prints what it has seen.
SCRIPT = """
    import argparse, json, math
    import MODULE as wandb

    args = argparse.Namespace(lr=0.1, depth=3)
    seen = {}
    assert wandb.run is None
    run = wandb.init(project="p", config=args, name="n", tags=["a"], settings=wandb.Settings(console="off"))
    seen["names"] = [run.name, run.project, list(run.tags)]
    seen["lr"] = [wandb.config.lr, wandb.config["depth"], run.config.get("none", 5), "lr" in wandb.config]
    wandb.config.update({"extra": 1, "depth": 4}, allow_val_change=True)
    wandb.config.late = "x"
    seen["config"] = dict(wandb.config)
    run.define_metric("loss", summary="min")
    wandb.define_metric("acc/*", summary="max,mean")
    for epoch in range(3):
        wandb.log({"loss": abs(1 - epoch), "lr": wandb.config.lr}, commit=False)
        wandb.log({"acc/top": epoch / 2, "deep": {"a": {"b": epoch}}})
    seen["step"] = run.step
    run.log({"late": 1}, step=10)
    run.log({"same": 2}, step=10)
    run.log({"never": 3}, step=4)
    run.log({"next": 4})
    run.log({"nan": math.nan, "text": "words"})
    seen["step again"] = wandb.run.step
    wandb.summary["best"] = 7
    run.summary.update({"other": 8})
    summary = {name: run.summary.get(name) for name in ("late", "same", "never", "next", "best", "other", "lr")}
    seen["summary"] = summary
    seen["best"] = wandb.run.summary["best"]
    wandb.watch(None) if "sweep" in "MODULE" else None
    wandb.finish()
    assert wandb.run is None
    try:
        wandb.log({"x": 1})
    except wandb.Error as error:
        seen["error"] = "wandb.init()" in str(error)
    with wandb.init(project="q", mode="disabled") as run:
        run.log({"nothing": 1})
    print("SEEN " + json.dumps(seen, sort_keys=True))
    """


def seen(stdout: str) -> object:
    return json.loads(next(line for line in stdout.splitlines() if line.startswith("SEEN "))[5:])


class WandB(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("wandb"), "wandb is not installed")
    def test_a_script_sees_the_same_as_with_the_real_package(self) -> None:
        import textwrap

        with tempfile.TemporaryDirectory() as folder, Job() as job:
            variables = {**clean_environment(), "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": folder}
            command = [sys.executable, "-c", textwrap.dedent(SCRIPT.replace("MODULE", "wandb"))]
            real = subprocess.run(
                command, env=variables, cwd=folder, capture_output=True, text=True, check=False, timeout=240
            )
            self.assertEqual(real.returncode, 0, real.stderr)
            own = job.run(SCRIPT.replace("MODULE", "sweep.wandb"))
            self.assertEqual(seen(own.stdout), seen(real.stdout))

    def test_what_is_reported(self) -> None:
        with Job({"lr": 0.5}) as job:
            ended = job.run(SCRIPT.replace("MODULE", "sweep.wandb"))
            self.assertEqual(ended.curve("loss"), {0: 1, 1: 0, 2: 1})
            self.assertEqual(ended.curve("lr"), {0: 0.5, 1: 0.5, 2: 0.5}, "the recipe overrides the configuration")
            self.assertEqual(ended.curve("acc/top"), {0: 0, 1: 0.5, 2: 1})
            self.assertEqual(ended.curve("deep.a.b"), {0: 0, 1: 1, 2: 2})
            self.assertEqual([ended.curve(name) for name in ("late", "same", "next")], [{10: 1}, {10: 2}, {10: 4}])
            self.assertEqual((ended.final("best"), ended.final("other")), (7, 8))
            summaries = [ended.final(name) for name in ("loss.min", "acc/top.max", "acc/top.mean")]
            self.assertEqual(summaries, [0, 1, 0.5])
            text = job.report.read_text()
            self.assertFalse("never" in text.replace("`never", "") or "nothing" in text, text)
            self.assertTrue(any("step 4 after step 10" in note for note in ended.notes()), ended.notes())

    def test_the_recipe_is_locked(self) -> None:
        with Job({"lr": 0.5}) as job:
            ended = job.run(
                """
                import sweep.wandb as wandb
                wandb.init(config={"lr": 1, "wd": 2})
                wandb.config.lr = 3
                wandb.config.wd = 4
                assert wandb.config.as_dict() == {"lr": 0.5, "wd": 4}
                wandb.log({"step": 5, "note": 6, "note2": {"value": 1, "unit": "s"}})
                """
            )
            self.assertIn("`config.lr` stays 0.5, which the recipe's `params` give; 3 is ignored", ended.stderr)
            self.assertEqual(ended.lines[-1], {"step": 0, "step_": 5, "note_": 6, "note2": {"value": 1, "unit": "s"}})

    def test_what_is_missing_is_said(self) -> None:
        with Job() as job:
            ended = job.run(
                """
                import sweep.wandb as wandb
                run = wandb.init()
                image, tuning = lambda: wandb.Image, lambda: wandb.sweep
                for look in (image, tuning, lambda: run.log_artifact, lambda: wandb.config.lr):
                    try:
                        look()
                    except AttributeError as error:
                        print(error)
                assert not hasattr(wandb, "Table") and not hasattr(run, "nothing")
                """
            )
            lines = ended.stdout.splitlines()
            self.assertTrue(lines[0].startswith("`sweep.wandb` has no `Image`. Of W&B there are Config, "), lines)
            self.assertIn("a recipe's `matrix` takes the place of W&B's sweeps", lines[1])
            self.assertIn("a run has no `log_artifact`: `outputs` of the recipe keeps files. Of W&B there ", lines[2])
            self.assertEqual(lines[3], "the configuration has no `lr`")

    def test_by_hand(self) -> None:
        by_hand(SCRIPT.replace("MODULE", "sweep.wandb"))


if __name__ == "__main__":
    unittest.main()
