"""Makes the small stores of other programs that the tests of `sweep import` read, with the programs themselves.

    python scripts/import-stores.py KIND FOLDER

KIND is mlflow, wandb, optuna, trackio, hydra or tensorboard, and its package must be importable. The stores in
`crates/engine/tests/engine/testdata/import` were made with mlflow 3.17.2, wandb 0.31.0, optuna 5.0.0, trackio 0.43.0,
hydra-core 1.3.8 and tensorboard 2.21.0. Every store has the runs of `RUNS`, and what is special to its program.
"""

import math
import os
import shutil
import sqlite3
import sys
from pathlib import Path

#: Learning rate and seed of each run; the loss of step t is `loss(lr, seed, t)`.
RUNS = [(lr, seed) for lr in (0.1, 0.2) for seed in (0, 1, 2)]
STEPS = 3


def loss(lr, seed, step):
    return round(1 + lr + 0.01 * seed * (1 if lr < 0.15 else 2) + 0.5 / (1 + step), 6)


def mlflow(folder):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    for uri in [f"file://{folder.resolve()}/mlruns", f"sqlite:///{folder}/mlflow.db"]:
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment("digits")
        for lr, seed in RUNS:
            with mlflow.start_run(run_name=f"lr{lr}"):
                mlflow.log_params({"lr": lr, "seed": seed, "opt.name": "adam", "größe": "groß", "layers": "[1, 2]"})
                for step in range(STEPS):
                    mlflow.log_metric("val/loss", loss(lr, seed, step), step=step)
        with mlflow.start_run(run_name="diverged"):
            mlflow.log_params({"lr": 5.0, "seed": 0, "opt.name": "adam"})
            mlflow.log_metric("val/loss", 2.0, step=0)
            mlflow.log_metric("val/loss", math.nan, step=1)
        try:
            with mlflow.start_run(run_name="failed"):
                mlflow.log_params({"lr": 0.1, "seed": 3, "opt.name": "adam"})
                mlflow.log_metric("val/loss", 9.0, step=0)
                raise RuntimeError("told to fail")
        except RuntimeError:
            pass


def wandb(folder):
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DISABLE_CODE="true", WANDB_DISABLE_GIT="true")
    import wandb

    for number, (lr, seed) in enumerate(RUNS):
        config = {"lr": lr, "seed": seed, "opt": {"name": "adam", "betas": [0.9, 0.95]}, "größe": "groß"}
        run = wandb.init(project="digits", dir=str(folder), id=f"run{number}", name=f"lr{lr}", config=config,
                         settings=wandb.Settings(x_disable_stats=True, x_disable_meta=True, console="off"))
        for step in range(STEPS):
            run.log({"val/loss": loss(lr, seed, step), "nested": {"acc": step}})
        run.finish()
    run = wandb.init(project="digits", dir=str(folder), id="diverged", config={"lr": 5.0, "seed": 0},
                     settings=wandb.Settings(x_disable_stats=True, x_disable_meta=True, console="off"))
    run.log({"val/loss": 2.0})
    run.log({"val/loss": math.nan})
    run.finish()
    run = wandb.init(project="digits", dir=str(folder), id="failed", config={"lr": 0.1, "seed": 3},
                     settings=wandb.Settings(x_disable_stats=True, x_disable_meta=True, console="off"))
    run.log({"val/loss": 9.0})
    run.finish(exit_code=1)


def optuna(folder):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = optuna.storages.journal.JournalFileBackend(str(folder / "optuna.log"))
    for storage in [f"sqlite:///{folder}/optuna.db", optuna.storages.JournalStorage(journal)]:
        study = optuna.create_study(storage=storage, study_name="digits", direction="minimize",
                                    sampler=optuna.samplers.RandomSampler(seed=0))
        for lr, seed in RUNS:
            study.enqueue_trial({"lr": lr, "seed": seed, "opt": "adam"})

        def objective(trial):
            lr = trial.suggest_float("lr", 1e-3, 10, log=True)
            seed = trial.suggest_int("seed", 0, 9)
            trial.suggest_categorical("opt", ["adam", "sgd"])
            for step in range(STEPS):
                trial.report(loss(lr, seed, step), step)
            if seed == 4:
                raise optuna.TrialPruned
            if seed == 5:
                raise RuntimeError("told to fail")
            return loss(lr, seed, STEPS - 1)

        study.enqueue_trial({"lr": 0.1, "seed": 4, "opt": "adam"})
        study.enqueue_trial({"lr": 0.1, "seed": 5, "opt": "adam"})
        study.optimize(objective, n_trials=len(RUNS) + 2, catch=(RuntimeError,))


def trackio(folder):
    os.environ.update(TRACKIO_DIR=str(folder / "cache"), HF_HUB_OFFLINE="1")
    import trackio

    for number, (lr, seed) in enumerate(RUNS):
        trackio.init(project="digits", name=f"run-{number}", config={"lr": lr, "seed": seed, "opt": {"name": "adam"}})
        for step in range(STEPS):
            trackio.log({"val/loss": loss(lr, seed, step)}, step=step)
        trackio.finish()
    trackio.init(project="digits", name="diverged", config={"lr": 5.0, "seed": 0})
    trackio.log({"val/loss": math.nan}, step=0)
    trackio.finish()


def hydra(folder):
    import subprocess

    app = folder / "app.py"
    app.write_text(
        "import json, hydra\n"
        "@hydra.main(version_base=None, config_path=None, config_name='config')\n"
        "def main(cfg):\n"
        "    json.dump({'loss': 1 + cfg.lr + 0.01 * cfg.seed}, open('metrics.json', 'w'))\n"
        "from hydra.core.config_store import ConfigStore\n"
        "ConfigStore.instance().store('config', {'lr': 0.1, 'seed': 0, 'opt': {'name': 'adam', 'lr': '${lr}'}})\n"
        "main()\n"
    )
    command = [sys.executable, app.name, "-m", "lr=0.1,0.2", "seed=0,1,2", "hydra.sweep.dir=multirun",
               "hydra.job.chdir=true"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    app.unlink()


def tensorboard(folder):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import summary_v2 as hparams
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for lr, seed in RUNS:
        writer = EventFileWriter(str(folder / "runs" / f"lr={lr},seed={seed}"))
        parameters = hparams.hparams_pb({"lr": lr, "seed": seed, "opt": "adam"})
        writer.add_event(Event(wall_time=1.7e9, step=0, summary=parameters))
        for step in range(STEPS):
            value = Summary.Value(tag="val/loss", simple_value=loss(lr, seed, step))
            writer.add_event(Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=[value])))
        writer.close()


def shrink(folder):
    """Removes files and paths of the machine that say nothing about the runs, and makes databases small."""
    here = str(folder.resolve())
    for name in ["tags", "logs"]:
        for path in list(folder.rglob(name)):
            shutil.rmtree(path)
    for path in [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]:
        if path.is_symlink():
            path.unlink()
        elif path.name in ["requirements.txt", "hydra.yaml", "multirun.yaml"] or path.suffix in [".lock", ".log"] and path.name != "optuna.log":
            path.unlink()
        elif path.suffix == ".db":
            database = sqlite3.connect(path)
            database.execute("PRAGMA journal_mode=DELETE")
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                if table == "tags":
                    database.execute("DELETE FROM tags")
                for column in database.execute(f'PRAGMA table_info("{table}")').fetchall():
                    if "CHAR" in column[2] or "TEXT" in column[2]:
                        change = f'UPDATE "{table}" SET "{column[1]}" = replace("{column[1]}", ?, ?)'
                        database.execute(f'{change} WHERE "{column[1]}" LIKE ?', (here, "/stores", f"%{here}%"))
            database.commit()
            database.execute("PRAGMA page_size=512")
            database.execute("VACUUM")
            database.close()
        elif path.suffix == ".yaml":
            path.write_text(path.read_text().replace(here, "/stores"))


if __name__ == "__main__":
    kind, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Some programs record the current folder.
    os.chdir(folder)
    globals()[kind](folder)
    shrink(folder)
