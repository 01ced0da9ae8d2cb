"""The logger and the callback for Lightning, with the real package."""

import importlib.util
import unittest

from driver import Job, by_hand

TRAIN = """
    import os, time, torch, sweep, sweep.lightning
    import lightning.pytorch as pl
    if torch.__version__ < "1.14":
        # What Lightning imports here, Debian 12's PyTorch has in a form that its Python rejects.
        pl.LightningModule._register_sharded_tensor_state_dict_hooks_if_available = lambda self: None
    torch.set_num_threads(1)
    pl.seed_everything(1)
    def wait():
        # Longer than the time between two looks for the file.
        time.sleep(0.15)
        while not os.path.exists(os.environ["SWEEP_STOP"]):
            time.sleep(0.15)
    hold = int(os.environ.get("HOLD", -1))

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(4, 1)
        def training_step(self, batch, index):
            if self.global_step == hold:
                wait()
            loss = (self.layer(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
            self.log("loss", loss)
            return loss
        def validation_step(self, batch, index):
            self.log("val_loss", (self.layer(batch) - batch.sum(1, keepdim=True)).pow(2).mean())
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=8)
    trainer = pl.Trainer(logger=sweep.lightning.Logger(), callbacks=[sweep.lightning.Callback(EVERY)], max_epochs=4,
        min_epochs=4, log_every_n_steps=1, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False)
    net = Net()
    trainer.fit(net, data, data, ckpt_path=sweep.resume())
    print("at", trainer.global_step)
    """


@unittest.skipUnless(
    importlib.util.find_spec("lightning") or importlib.util.find_spec("pytorch_lightning"), "Lightning is not installed"
)
class Lightning(unittest.TestCase):
    def test_curves_checkpoints_and_progress(self) -> None:
        with Job() as job:
            ended = job.run(TRAIN.replace("EVERY", ""))
            self.assertEqual(sorted(ended.curve("loss")), list(range(20)))
            self.assertEqual(sorted(ended.curve("val_loss")), [4, 9, 14, 19])
            self.assertGreater(ended.curve("val_loss")[4], ended.curve("val_loss")[19])
            self.assertEqual((ended.final("total"), ended.final("stopped")), (20, None))
            self.assertEqual(len(job.checkpoints), 4, ended.lines)
            self.assertEqual(max(line.get("step", 0) for line in ended.lines), 20)

    def test_a_stop_and_the_next_attempt(self) -> None:
        with Job() as job:
            script = TRAIN.replace("EVERY", "3")
            process = job.start(script, HOLD="11")
            job.wait_for_step(process, 10)
            job.stop.touch()
            first = job.end(process)
            self.assertEqual((first.code, first.final("stopped")), (0, True), first.stderr)
            last = int(first.stdout.split()[-1])
            self.assertIn(last, (12, 13))
            second = job.run(script)
            self.assertEqual(second.stdout.split()[-1], "20")
            self.assertEqual((min(second.curve("loss")), max(second.curve("loss"))), (last, 19))

    def test_until(self) -> None:
        with Job(SWEEP_UNTIL="7") as job:
            ended = job.run(TRAIN.replace("EVERY", ""))
            self.assertEqual((ended.stdout.split()[-1], ended.final("total"), ended.final("stopped")), ("7", 7, None))

    def test_by_hand(self) -> None:
        by_hand(TRAIN.replace("EVERY", "5"))


if __name__ == "__main__":
    unittest.main()
