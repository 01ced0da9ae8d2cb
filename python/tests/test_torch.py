"""Checkpoints of PyTorch trainings, with the real package."""

import importlib.util
import signal
import unittest

from driver import Job

TRAIN = """
    import os, random, time, numpy, torch, sweep, sweep.torch
    torch.manual_seed(1); random.seed(2); numpy.random.seed(3)
    torch.set_num_threads(1)
    def wait():
        # Longer than the time between two looks for the file.
        time.sleep(0.15)
        while not os.path.exists(os.environ["SWEEP_STOP"]):
            time.sleep(0.15)
    hold = int(os.environ.get("HOLD", -1))
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    best = 1e9
    restored = sweep.torch.load(net=net, optimizer=optimizer, schedule=schedule)
    if restored is not None:
        best = restored["best"]
    for step in sweep.steps(30):
        if step == hold:
            wait()
        batch = torch.randn(4, 8) + random.random() + float(numpy.random.rand())
        loss = (net(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step(); schedule.step()
        best = min(best, loss.item())
        stop = sweep.report(step, loss=loss, best=best, lr=schedule.get_last_lr()[0])
        if stop or step % 7 == 6:
            sweep.torch.save(net=net, optimizer=optimizer, schedule=schedule, best=best)
    """


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class Torch(unittest.TestCase):
    def test_a_resumed_training_is_bit_equal_to_one_in_one_piece(self) -> None:
        with Job() as job:
            whole = job.run(TRAIN)
        for ends in ("stop", "kill"):
            with Job() as job:
                process = job.start(TRAIN, HOLD="17")
                job.wait_for_step(process, 16)
                if ends == "stop":
                    job.stop.touch()
                else:
                    process.send_signal(signal.SIGKILL)
                first = job.end(process)
                self.assertEqual(first.final("stopped"), True if ends == "stop" else None)
                second = job.run(TRAIN)
                begin = min(second.curve("loss"))
                self.assertIn(begin, (18, 19) if ends == "stop" else (14,))
                for name in ("loss", "best", "lr"):
                    kept = {step: value for step, value in first.curve(name).items() if step < begin}
                    self.assertEqual({**kept, **second.curve(name)}, whole.curve(name))

    def test_other_objects_than_were_saved_are_an_error(self) -> None:
        with Job() as job:
            job.run("import torch, sweep.torch\nsweep.torch.save(step=1, net=torch.nn.Linear(1, 1))")
            ended = job.end(job.start("import torch, sweep.torch\nsweep.torch.load(model=torch.nn.Linear(1, 1))"))
            self.assertIn("has the states of net; `sweep.torch.load` was given model", ended.stderr)

    def test_ranks_of_torch_distributed(self) -> None:
        script = """
            import os, sys, time, torch, torch.distributed as dist, sweep
            meet, me = "file://" + os.environ["MEET"], int(os.environ["ME"])
            dist.init_process_group("gloo", init_method=meet, rank=me, world_size=2)
            value = torch.ones(1)
            for step in sweep.steps(100000):
                dist.all_reduce(value)
                value /= 2
                time.sleep(0.002)
                stop = sweep.report(step, value=value)
            print(sweep.rank(), step, stop)
            dist.destroy_process_group()
            assert sweep.rank() == me
            """
        with Job() as job:
            meet = str(job.folder / "meet")
            both = [job.start(script, MEET=meet, ME=str(rank)) for rank in range(2)]
            job.wait_for_step(both[0], 5)
            job.stop.touch()
            ends = [process.communicate(timeout=200) for process in both]
            self.assertEqual([process.returncode for process in both], [0, 0], ends)
            (first, step, told), (second, same, also) = (stdout.split() for stdout, _ in ends)
            self.assertEqual((first, second, step, told, also), ("0", "1", same, "True", "True"))
            self.assertEqual(len([line for line in job.lines() if line.get("step") == 3 and "value" in line]), 1)


if __name__ == "__main__":
    unittest.main()
