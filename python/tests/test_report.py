"""Reports: their lines, and what may not happen to them."""

import json
import os
import signal
import subprocess
import sys
import unittest

from driver import Job, by_hand


class Reports(unittest.TestCase):
    def test_lines_of_points_and_final_metrics(self) -> None:
        with Job() as job:
            ended = job.run(
                """
                import sweep
                assert sweep.active()
                for step in range(3):
                    assert sweep.report(step, loss=1 / (step + 1), nested={"a": {"b": step}}) is False
                sweep.report(step=3, time={"value": 0.5, "unit": "s"})
                sweep.report(val_loss=2.5, note="done")
                """
            )
            expected = [
                {"step": 0, "loss": 1.0, "nested": {"a": {"b": 0}}},
                {"step": 1, "loss": 0.5, "nested": {"a": {"b": 1}}},
                {"step": 2, "loss": 1 / 3, "nested": {"a": {"b": 2}}},
                {"step": 3, "time": {"value": 0.5, "unit": "s"}},
                {"val_loss": 2.5, "note": "done"},
            ]
            self.assertEqual(ended.lines, expected)

    def test_values_that_are_no_numbers_are_left_out_with_a_warning(self) -> None:
        with Job() as job:
            ended = job.run(
                """
                import sweep
                from decimal import Decimal
                class Odd:
                    def item(self):
                        raise RuntimeError("only one element")
                class One:
                    def item(self):
                        return 7
                circle = {}
                circle["x"] = circle
                for step in range(2):
                    sweep.report(step, odd=Odd(), one=One(), deep={"odd": Odd(), "fine": 1, 2: 3}, d=Decimal("0.5"))
                    sweep.report(step, circle=circle, c=1j, after=1)
                """
            )
            self.assertEqual(ended.curve("one"), {0: 7, 1: 7})
            self.assertEqual(ended.curve("deep"), {0: {"fine": 1, "2": 3}, 1: {"fine": 1, "2": 3}})
            self.assertEqual(ended.curve("d"), {0: 0.5, 1: 0.5})
            self.assertEqual(ended.curve("after"), {0: 1, 1: 1})
            self.assertEqual(len([note for note in ended.notes() if "`odd` is a Odd" in note]), 1)
            self.assertIn("`deep.odd` is a Odd that is no number (only one element)", ended.stderr)
            self.assertIn("`c` is a complex", ended.stderr)

    def test_warnings_that_are_errors_end_no_training(self) -> None:
        with Job() as job:
            script = "import sweep; sweep.report(1, x=object(), y=2); sweep.report(2, x=object(), y=3)"
            ended = job.run(script, PYTHONWARNINGS="error")
            self.assertEqual((ended.curve("y"), ended.stderr.count("`x` is a object")), ({1: 2, 2: 3}, 1), ended.stderr)

    def test_nan_is_written_as_a_word(self) -> None:
        with Job() as job:
            job.run("import sweep; sweep.report(1, a=float('nan'), b=float('inf'), c=-float('inf'))")
            self.assertEqual(job.report.read_text(), '{"step":1,"a":NaN,"b":Infinity,"c":-Infinity}\n')

    def test_steps_that_are_none_are_errors(self) -> None:
        for step, error in [("-1", "ValueError"), ("1.5", "TypeError"), ("'x'", "TypeError"), ("[1]", "TypeError")]:
            with Job() as job:
                ended = job.end(job.start(f"import sweep; sweep.report({step}, loss=1)"))
                self.assertIn(f"{error}: a step is an integer of at least 0, not", ended.stderr)
        by_hand("import sweep; sweep.report(2.0, loss=1)")

    def test_what_was_reported_survives_an_exception_and_a_kill(self) -> None:
        with Job() as job:
            script = "import sweep\nfor step in range(1000): sweep.report(step, loss=step)\nraise SystemError('x')"
            ended = job.end(job.start(script))
            self.assertEqual((ended.code, len(ended.lines)), (1, 1000))
            process = job.start(
                """
                import sweep, time
                for step in range(1000):
                    sweep.report(step, loss=step)
                time.sleep(1000)
                """
            )
            # A thread writes what waits while the program computes.
            job.wait_for_step(process, 999)
            process.send_signal(signal.SIGKILL)
            self.assertEqual(len(job.end(process).lines), 1000)

    def test_threads_and_forked_processes_write_whole_lines(self) -> None:
        with Job() as job:
            ended = job.run(
                """
                import multiprocessing, os, sweep, threading
                def work(number):
                    for step in range(500):
                        sweep.report(step, **{f"s{number}": step}, pad="x" * 500)
                sweep.report(0, begun=1)
                sweep.report(1, begun=2)
                threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
                context = multiprocessing.get_context("fork")
                processes = [context.Process(target=work, args=(n,)) for n in range(4, 7)]
                [job.start() for job in threads + processes]
                [job.join() for job in threads + processes]
                if os.fork() == 0:
                    work(7)
                    os._exit(0)
                os.wait()
                """
            )
            for number in range(8):
                self.assertEqual(ended.curve(f"s{number}"), {step: step for step in range(500)})
            self.assertEqual([line["begun"] for line in ended.lines if "begun" in line], [1, 2], "no line twice")

    def test_other_ranks_write_nothing_unless_they_name_themselves(self) -> None:
        script = "import sweep; r = sweep.rank(); sweep.report(1, loss=2); sweep.report(1, loss=3, rank=r); print(r)"
        for variables, rank in [({"SWEEP_RANK": "1", "RANK": "5"}, 1), ({"RANK": "2"}, 2), ({"RANK": "x"}, 0), ({}, 0)]:
            with Job(**variables) as job:
                ended = job.run(script)
                self.assertEqual(ended.stdout, f"{rank}\n")
                last = {"step": 1, "loss": 3, "rank": rank}
                self.assertEqual(ended.lines, [last] if rank else [{"step": 1, "loss": 2}, last])

    def test_a_full_disk_does_not_end_a_training(self) -> None:
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with Job() as job:
            ended = job.run(
                "import sweep\nfor step in range(50000): sweep.report(step, x=step)", SWEEP_REPORT="/dev/full"
            )
            self.assertEqual(ended.stderr.count("cannot be written"), 1, ended.stderr)

    def test_by_hand_nothing_happens_unless_asked(self) -> None:
        script = """
            import sweep
            for step in sweep.steps(3):
                assert sweep.report(step, loss=0.123456789) is False
            sweep.report(val_loss=1)
            """
        ended = by_hand(script)
        self.assertEqual((ended.stdout, ended.stderr), ("", ""))
        ended = by_hand(script, SWEEP_PRINT="1")
        self.assertEqual(ended.stderr, "sweep: step 0 loss=0.123457\nsweep: val_loss=1\n")

    def test_a_stop_is_answered_and_declared(self) -> None:
        script = """
            import sweep, time
            done = None
            for step in range({steps}):
                if sweep.report(step, loss=step, total={total}) and {heeds}:
                    break
                time.sleep(0.01)
            """
        for steps, total, heeds, stopped in [(100000, 100000, True, True), (300, 299, False, False)]:
            with Job() as job:
                process = job.start(script.format(steps=steps, total=total, heeds=heeds))
                job.wait_for_step(process, 3)
                job.stop.touch()
                ended = job.end(process)
                self.assertEqual(ended.final("stopped"), True if stopped else None, ended.lines[-3:])

    def test_numpy_scalars_and_arrays_of_one(self) -> None:
        if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True, check=False).returncode:
            self.skipTest("NumPy is not installed")
        with Job() as job:
            ended = job.run(
                """
                import numpy as np, sweep
                sweep.report(np.int64(4), a=np.float32(0.5), b=np.float64(0.25), c=np.array(3), d=np.array([2.5]),
                    e=np.longdouble(1.5), f=np.bool_(True), g=np.zeros(2), h=np.float16("nan"))
                """
            )
            line = json.dumps(ended.lines[-1])
            self.assertEqual(line, '{"step": 4, "a": 0.5, "b": 0.25, "c": 3, "d": 2.5, "e": 1.5, "f": true, "h": NaN}')
            self.assertIn("`g` is a ndarray that is no number", ended.stderr)


if __name__ == "__main__":
    unittest.main()
