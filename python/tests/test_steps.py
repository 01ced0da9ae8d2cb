"""Loops that resume, stop, and show progress; checkpoints."""

import os
import signal
import time
import unittest

from driver import Job, by_hand

TRAIN = """
    import json, os, sweep, time
    def wait():
        # Longer than the time between two looks for the file.
        time.sleep(0.15)
        while not os.path.exists(os.environ["SWEEP_STOP"]):
            time.sleep(0.15)
    hold = int(os.environ.get("HOLD", -1))
    state = {"sum": 0}
    if (path := sweep.resume()) is not None:
        state = json.loads(path.read_text())
    print("from", state)
    for step in sweep.steps(40):
        state["sum"] += step
        if step == hold:
            wait()
        stop = sweep.report(step, sum=state["sum"])
        if stop or step % 10 == 9:
            with sweep.checkpoint() as path:
                path.write_text(json.dumps(state))
    print("after", step, state["sum"])
    """


class Steps(unittest.TestCase):
    def test_a_loop_to_its_end(self) -> None:
        with Job() as job:
            ended = job.run(TRAIN)
            self.assertEqual(ended.stdout, f"from {{'sum': 0}}\nafter 39 {sum(range(40))}\n")
            self.assertEqual(ended.final("total"), 40)
            self.assertEqual(ended.curve("sum"), {step: sum(range(step + 1)) for step in range(40)})
            self.assertEqual(max(line.get("step", 0) for line in ended.lines), 40, "all steps are done")
            self.assertIsNone(ended.final("stopped"))
            folders = sorted(path.name for path in (job.scratch / "checkpoints").iterdir())
            self.assertEqual(folders[-2:], ["000003", "000004"])
            self.assertEqual(job.checkpoints[-1], "checkpoints/000004/checkpoint")

    def test_a_stop_keeps_a_checkpoint_and_the_next_attempt_goes_on(self) -> None:
        with Job() as job:
            process = job.start(TRAIN, HOLD="20")
            job.wait_for_step(process, 19)
            job.stop.touch()
            first = job.end(process)
            self.assertEqual(first.final("stopped"), True)
            last = max(first.curve("sum"))
            self.assertIn(last, (20, 21))
            second = job.run(TRAIN)
            self.assertEqual(min(second.curve("sum")), last + 1)
            self.assertEqual({**first.curve("sum"), **second.curve("sum")}[39], sum(range(40)))
            self.assertIsNone(second.final("stopped"))

    def test_the_first_sigterm_is_a_request_and_the_second_ends_the_program(self) -> None:
        script = """
            import os, sweep, time
            for step in sweep.steps(100_000):
                if sweep.report(step, x=step) and "DEAF" not in os.environ:
                    with sweep.checkpoint() as path:
                        path.write_text(str(step))
                time.sleep(0.01)
                while "DEAF" in os.environ and sweep.should_stop():
                    time.sleep(0.01)
            print("left")
            """
        with Job() as job:
            process = job.start(script)
            job.wait_for_step(process, 5)
            process.send_signal(signal.SIGTERM)
            ended = job.end(process)
            self.assertEqual((ended.code, ended.stdout, ended.final("stopped")), (0, "left\n", True), ended.stderr)
            self.assertEqual(len(job.checkpoints), 1)
            process = job.start(script, DEAF="1")
            job.wait_for_step(process, 5)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            self.assertIsNone(process.poll(), "it was asked only")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(job.end(process).code, -signal.SIGTERM)

    def test_a_kill_goes_on_from_the_last_checkpoint(self) -> None:
        with Job() as job:
            process = job.start(TRAIN, HOLD="26")
            job.wait_for_step(process, 25)
            process.send_signal(signal.SIGKILL)
            job.end(process)
            second = job.run(TRAIN)
            self.assertEqual((min(second.curve("sum")), second.curve("sum")[39]), (20, sum(range(40))))

    def test_a_stop_ends_a_loop_that_does_not_ask(self) -> None:
        with Job() as job:
            process = job.start(
                """
                import sweep, time
                for step in sweep.steps(100000):
                    time.sleep(0.01)
                    sweep.report(step, loss=1)
                sweep.report(val_loss=3)
                """
            )
            job.wait_for_step(process, 3)
            job.stop.touch()
            ended = job.end(process)
            self.assertEqual((ended.code, ended.final("stopped"), ended.final("val_loss")), (0, True, 3))

    def test_breaks_of_its_own_exceptions_and_a_last_step_are_no_stop(self) -> None:
        for body, code in [
            ("break", 0),
            ("open(os.environ['SWEEP_STOP'], 'w') if step == 4 else None; sweep.report(step, loss=1)", 0),
            ("open(os.environ['SWEEP_STOP'], 'w'); sweep.report(step, x=1); raise ValueError('save failed')", 1),
        ]:
            with Job() as job:
                script = f"import os, sweep, time\nfor step in sweep.steps(5): time.sleep(0.11); {body}"
                ended = job.end(job.start(script))
                self.assertEqual((ended.code, ended.final("stopped")), (code, None), (body, ended.stderr))

    def test_until_and_start(self) -> None:
        script = "import sweep; print(list(sweep.steps(10{start})), len(sweep.steps(10)), sweep.until(7))"
        for until, start, expected in [
            ("", "", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] 10 7"),
            ("3", "", "[0, 1, 2] 3 3"),
            ("30", ", start=8", "[8, 9] 10 30"),
        ]:
            with Job(SWEEP_UNTIL=until) as job:
                ended = job.run(script.format(start=start))
                self.assertEqual(ended.stdout.strip(), expected)
                noted = "`until` is 30, but the program's loop ends at 10" in "".join(ended.notes())
                self.assertEqual(noted, until == "30")
        with Job(SWEEP_UNTIL="many") as job:
            ended = job.end(job.start("import sweep; sweep.until(1)"))
            self.assertIn("SWEEP_UNTIL is 'many'; it must be an integer of at least 1", ended.stderr)

    def test_progress_without_reports(self) -> None:
        with Job() as job:
            ended = job.run("import sweep, time\nfor step in sweep.steps(30): time.sleep(0.05)")
            steps = [line["step"] for line in ended.lines if "step" in line]
            self.assertTrue(len(steps) >= 2 and steps == sorted(steps) and steps[-1] == 30, steps)

    def test_ranks_stop_after_the_same_step(self) -> None:
        script = """
            import os, sweep, time
            last, rank = None, sweep.rank()
            for step in sweep.steps(100000):
                time.sleep(0.01 if rank == 0 else 0.011)
                stop = sweep.report(step, loss=1)
                last = step
            print(last, stop)
            """
        with Job(WORLD_SIZE="2") as job:
            first = job.start(script, RANK="0")
            # The report stays that of the first one.
            text = job.report.read_text
            second = job.start(script, RANK="1")
            job.wait_for_step(first, 5)
            job.stop.touch()
            ends = [process.communicate(timeout=100)[0] for process in (first, second)]
            self.assertEqual(ends[0], ends[1])
            self.assertTrue(ends[0].endswith(" True\n"), ends)
            self.assertIn('{"stopped":true}', text())
            self.assertFalse(os.path.exists(f"{job.stop}.step.new"))


class Checkpoints(unittest.TestCase):
    def test_an_exception_leaves_none(self) -> None:
        with Job() as job:
            ended = job.run(
                """
                import sweep
                for body in ("raise OSError('disk')", "pass"):
                    try:
                        with sweep.checkpoint() as path:
                            exec(body)
                    except (OSError, FileNotFoundError) as error:
                        print(error)
                """
            )
            self.assertEqual((ended.lines, list((job.scratch / "checkpoints").iterdir())), ([], []))
            self.assertIn("disk\n", ended.stdout)
            self.assertIn("nothing was written to the path of the checkpoint", ended.stdout)

    def test_the_last_two_are_kept_and_remains_are_removed(self) -> None:
        with Job() as job:
            (job.scratch / "checkpoints" / ".new-1-dead").mkdir(parents=True)
            job.run(
                """
                import sweep, sweep._checkpoint as own
                own.YOUNG = 0
                for step in range(5):
                    sweep.report(step, loss=1)
                    with sweep.checkpoint("model.pt") as path:
                        path.write_text(str(step))
                with sweep.checkpoint("folder") as path:
                    (path / "sub").mkdir(parents=True)
                    (path / "sub" / "file").write_text("x")
                """
            )
            found = sorted(str(p.relative_to(job.scratch)) for p in job.scratch.rglob("*") if p.is_file())
            names = ["000005/model.pt", "000005/sweep.json", "000006/folder/sub/file", "000006/sweep.json"]
            self.assertEqual(found, [f"checkpoints/{name}" for name in names])
            self.assertEqual(job.checkpoints[-2:], ["checkpoints/000005/model.pt", "checkpoints/000006/folder"])
            job.run("import sweep; assert sweep.resume().name == 'folder'; assert list(sweep.steps(6)) == [5]")

    def test_without_asking_for_the_checkpoint_the_loop_begins_anew(self) -> None:
        with Job() as job:
            script = "import sweep\nfor step in sweep.steps(3):\n with sweep.checkpoint() as path: path.touch()"
            job.run(script)
            ended = job.run("import sweep; print(list(sweep.steps(3)))")
            self.assertEqual(ended.stdout, "[0, 1, 2]\n")

    def test_steps_may_be_reported_under_other_numbers(self) -> None:
        with Job() as job:
            job.run(
                """
                import sweep
                for step in sweep.steps(5):
                    sweep.report(10 * (step + 1), loss=1)
                    if step == 2:
                        with sweep.checkpoint() as path:
                            path.touch()
                        break
                """
            )
            ended = job.run("import sweep; sweep.resume(); print(list(sweep.steps(5)))")
            self.assertEqual(ended.stdout, "[3, 4]\n")

    def test_a_kill_at_any_moment_leaves_whole_checkpoints(self) -> None:
        script = """
            import os, sweep, sweep._checkpoint as own
            kill = lambda *_: os.kill(os.getpid(), 9)
            if AT == 1:
                own.sync = kill
            if AT == 2:
                own.os.rename = kill
            if AT == 3:
                own._sync_one = lambda path: kill() if path.name == "checkpoints" else None
            if AT == 4:
                own._prune = kill
            path = sweep.resume()
            value = int(path.read_text()) if path else 0
            with sweep.checkpoint(step=value) as path:
                path.write_text(str(value + 1))
                if AT == 0:
                    kill()
            print(value)
            """
        with Job() as job:
            job.run(script.replace("AT", "9"))
            for at, declared in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2)]:
                ended = job.end(job.start(script.replace("AT", str(at))))
                self.assertEqual(ended.code, -signal.SIGKILL, ended.stderr)
                newest = (job.scratch / job.checkpoints[-1]).read_text()
                self.assertEqual(newest, str(declared), f"killed at {at}")
            self.assertEqual(job.run(script.replace("AT", "9")).stdout, "2\n")
            names = [path.name for path in (job.scratch / "checkpoints").iterdir()]
            self.assertFalse([name for name in names if name.startswith(".new")], names)

    def test_a_path_outside_of_a_block_is_an_error(self) -> None:
        with Job() as job:
            ended = job.end(job.start("import sweep; open(sweep.checkpoint(), 'w')"))
            self.assertIn("TypeError: a checkpoint is written in a block: `with sweep.checkpoint()", ended.stderr)
            for name in ("''", "'a/b'", "'..'", "'sweep.json'"):
                ended = job.end(job.start(f"import sweep; sweep.checkpoint({name})"))
                self.assertIn("ValueError: the name of a checkpoint is that of a file", ended.stderr)

    def test_other_ranks_keep_nothing(self) -> None:
        with Job(RANK="1", WORLD_SIZE="2") as job:
            job.run("import sweep\nwith sweep.checkpoint() as path: path.write_text('x')")
            self.assertEqual(list(job.scratch.iterdir()), [])

    def test_by_hand_they_are_discarded_or_kept_where_asked(self) -> None:
        script = "import sweep\nwith sweep.checkpoint() as path: path.write_text('x')\nprint(sweep.resume())"
        ended = by_hand(script)
        self.assertEqual(ended.stdout, "None\n")
        self.assertIn("by hand a checkpoint is discarded; SWEEP_SCRATCH=FOLDER keeps it", ended.stderr)
        with Job() as job:
            ended = by_hand(script, SWEEP_SCRATCH=str(job.scratch))
            self.assertEqual(ended.stdout, f"{job.scratch}/checkpoints/000001/checkpoint\n")


if __name__ == "__main__":
    unittest.main()
