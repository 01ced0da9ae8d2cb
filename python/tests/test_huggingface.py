"""The callback for the Trainer, with the real package."""

import importlib.util
import unittest

from driver import Job, by_hand

TRAIN = """
    import os, time, torch, sweep, sweep.huggingface
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed
    set_seed(1)
    torch.set_num_threads(1)
    def wait():
        # Longer than the time between two looks for the file.
        time.sleep(0.15)
        while not os.path.exists(os.environ["SWEEP_STOP"]):
            time.sleep(0.15)
    hold = int(os.environ.get("HOLD", -1))

    class Hold(TrainerCallback):
        def on_step_begin(self, args, state, control, **_):
            if state.global_step == hold:
                wait()

    data = [{"input_ids": torch.arange(i, i + 8) % 50, "labels": torch.arange(i, i + 8) % 50} for i in range(64)]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    args = TrainingArguments(OUTPUT, max_steps=12, per_device_train_batch_size=4, logging_steps=1, save_steps=5,
        report_to=[], disable_tqdm=True, use_cpu=True, evaluation_strategy="steps", eval_steps=6)
    trainer = Trainer(model, args, train_dataset=data, eval_dataset=data[:8],
        callbacks=[Hold(), sweep.huggingface.Callback()])
    trainer.train(resume_from_checkpoint=sweep.resume())
    sweep.report(final=trainer.evaluate()["eval_loss"])
    """
TRAIN = TRAIN.replace("OUTPUT", '"out"')


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
class HuggingFace(unittest.TestCase):
    def test_curves_checkpoints_and_progress(self) -> None:
        with Job() as job:
            ended = job.run(TRAIN)
            self.assertEqual(sorted(ended.curve("loss")), list(range(1, 13)))
            self.assertEqual(sorted(ended.curve("eval_loss")), [6, 12])
            self.assertGreater(ended.curve("loss")[1], ended.curve("loss")[12])
            self.assertEqual((ended.final("total"), ended.final("stopped")), (12, None))
            self.assertAlmostEqual(ended.final("final"), ended.curve("eval_loss")[12], places=6)
            names = [name.split("/")[-1] for name in job.checkpoints]
            self.assertEqual(names[:2], ["checkpoint-5", "checkpoint-10"])
            whole = ended.curve("loss")
        with Job() as job:
            process = job.start(TRAIN, HOLD="7")
            job.wait_for_step(process, 7)
            job.stop.touch()
            first = job.end(process)
            self.assertEqual((first.code, first.final("stopped")), (0, True), first.stderr)
            last = max(first.curve("loss"))
            self.assertIn(last, (8, 9))
            self.assertEqual(job.checkpoints[-1].split("/")[-1], f"checkpoint-{last}")
            second = job.run(TRAIN)
            self.assertEqual(min(second.curve("loss")), last + 1)
            for step, loss in {**first.curve("loss"), **second.curve("loss")}.items():
                self.assertAlmostEqual(loss, whole[step], places=3, msg=f"step {step}")

    def test_until(self) -> None:
        with Job(SWEEP_UNTIL="4") as job:
            ended = job.run(TRAIN)
            self.assertEqual((max(ended.curve("loss")), ended.final("total"), ended.final("stopped")), (4, 4, None))
            self.assertEqual(job.checkpoints[-1].split("/")[-1], "checkpoint-4")

    def test_by_hand(self) -> None:
        by_hand(TRAIN.replace('"out"', '__import__("tempfile").mkdtemp()'))


if __name__ == "__main__":
    unittest.main()
