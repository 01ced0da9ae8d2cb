"""Makes the small stores of other programs that the tests of `sweep import` read, with the programs themselves.

    python scripts/import-stores.py KIND FOLDER

KIND is mlflow, wandb, optuna, trackio, hydra, tensorboard or neptune, and its package must be importable. The stores in
`crates/engine/tests/engine/testdata/import` were made with mlflow 3.17.2, wandb 0.31.0, optuna 5.0.0, trackio 0.43.0,
hydra-core 1.3.8, tensorboard 2.21.0 and pyarrow 26.0.1. Every store has the runs of `RUNS`, and what is special to its program.
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


def neptune(folder):
    """The exporter of Neptune is not on PyPI and exports from Neptune's service only, so PyArrow writes its files, with the
    schema, the names and the compression that https://github.com/neptune-ai/neptune-exporter documents."""
    import datetime
    import hashlib
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    time = pa.timestamp("ms", tz="UTC")
    schema = pa.schema([
        ("project_id", pa.string()), ("run_id", pa.string()), ("attribute_path", pa.string()),
        ("attribute_type", pa.string()), ("step", pa.decimal128(18, 6)), ("timestamp", time), ("int_value", pa.int64()),
        ("float_value", pa.float64()), ("string_value", pa.string()), ("bool_value", pa.bool_()),
        ("datetime_value", time), ("string_set_value", pa.list_(pa.string())),
        ("file_value", pa.struct([("path", pa.string())])),
        ("histogram_value", pa.struct([("type", pa.string()), ("edges", pa.list_(pa.float64())),
                                       ("values", pa.list_(pa.float64()))])),
    ])
    project, begin = "team/digits", datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.timezone.utc)

    def safe(name):
        plain = "".join(char if char.isalnum() or char in "_-" else "_" for char in name)
        return f"{plain}-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"

    def value(path, kind, content):
        return {"attribute_path": path, "attribute_type": kind, f"{kind}_value": content}

    def point(path, step, content):
        at = begin + datetime.timedelta(seconds=float(step))
        return {"attribute_path": path, "attribute_type": "float_series", "step": Decimal(step).quantize(Decimal("1.000000")),
                "timestamp": at, "float_value": content}

    def write(run, parts, end=".parquet"):
        folder_of_project = folder / "neptune" / safe(project)
        folder_of_project.mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(parts):
            table = pa.Table.from_pylist([{"project_id": project, "run_id": run, **row} for row in rows], schema=schema)
            pq.write_table(table, folder_of_project / f"{safe(run)}_part_{number}{end}", compression="snappy")

    def settings(run, lr, seed, **more):
        rows = [value("sys/id", "string", run), value("sys/name", "string", f"lr{lr}"),
                value("sys/creation_time", "datetime", begin), value("sys/running_time", "float", 2.5),
                value("sys/tags", "string_set", ["a", "b"]), value("params/lr", "float", lr),
                value("params/seed", "int", seed), value("params/opt/name", "string", "adam"),
                value("params/amp", "bool", True), value("test/acc", "float", 0.9 - lr / 10),
                point("monitoring/0/cpu", 0, 12.0)]
        return rows + [value(f"sys/{name}", "bool", content) for name, content in more.items()]

    for number, (lr, seed) in enumerate(RUNS):
        run = f"DIG-{number + 1}"
        points = [point("val/loss", step, loss(lr, seed, step)) for step in range(STEPS)]
        # The rows of a run may be in several parts, and in any order.
        write(run, [settings(run, lr, seed) + points[2:], points[:2]])
    write("DIG-7", [settings("DIG-7", 5.0, 0) + [point("val/loss", 0, 2.0), point("val/loss", 1, math.nan),
                                                 point("grid/share", "0.25", 1.0), point("grid/share", "0.5", 2.0)]])
    write("DIG-8", [settings("DIG-8", 0.1, 3, failed=True) + [point("val/loss", 0, 9.0)]])
    write("DIG-9", [settings("DIG-9", 0.1, 4, trashed=True)])
    write("DIG-10", [settings("DIG-10", 0.1, 5)], end=".parquet.tmp")


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
