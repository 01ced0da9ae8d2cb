//! Exports that other programs read.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Reads event files with the real package, where Python has it.
const READER: &str = "
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1]); read.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in read.Scalars(tag)] for tag in read.Tags()['scalars']}))
";

/// Serves a folder with the real server, on loopback, and reads a run from it, where Python has it.
const MLFLOW: &str = "
import json, os, socket, subprocess, sys, time, urllib.request
os.environ.update(MLFLOW_ALLOW_FILE_STORE='true', MLFLOW_DISABLE_TELEMETRY='true')
from mlflow.tracking import MlflowClient
with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = str(free.getsockname()[1])
address, folder = 'http://127.0.0.1:' + port, 'file://' + sys.argv[1]
arguments = ['server', '--backend-store-uri', folder, '--host', '127.0.0.1', '--port', port, '--workers', '1']
server = subprocess.Popen([sys.executable, '-m', 'mlflow', *arguments], stdout=sys.stderr)
try:
    for look in range(600):
        try:
            urllib.request.urlopen(address + '/health').read()
            break
        except OSError:
            assert server.poll() is None, 'the server has ended'
            time.sleep(0.1)
    client = MlflowClient(address)
    found = client.search_experiments(filter_string=\"name = 'train'\")[0]
    runs = client.search_runs([found.experiment_id], order_by=['metrics.loss'])
    run = next(run for run in runs if run.info.run_name == 'train/prune=none')
    history = client.get_metric_history(run.info.run_id, 'curves/loss')
finally:
    server.terminate()
    server.wait()
print(json.dumps({'runs': len(runs), 'status': run.info.status, 'metrics': run.data.metrics, 'params': run.data.params,
    'host': run.data.tags['sweep.host'], 'curve': [[m.step, m.value] for m in history]}))
";

#[test]
fn mlflow_serves_what_is_exported() {
    let sandbox = finished();
    for _ in 0..2 {
        let ended = sandbox.sweep(&["export", "mlflow", "mlruns", "recipe.yaml", "--backend", "cpu"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "2 jobs in mlruns\n"), "{}", ended.stderr);
    }
    let experiments = crate::sandbox::list(&sandbox.path("mlruns"));
    assert_eq!(experiments.len(), 1, "{experiments:?}");
    let id = experiments[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(id.len() == 18 && id.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
    let meta = sandbox.read(&format!("mlruns/{id}/meta.yaml"));
    assert!(meta.contains(&format!("experiment_id: '{id}'")) && meta.contains("name: \"train\""), "{meta}");
    let runs: Vec<String> = crate::sandbox::list(&experiments[0])
        .iter()
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(runs.len(), 2, "a second export replaces the first: {runs:?}");
    let read = |run: &str, file: &str| sandbox.read(&format!("mlruns/{id}/{run}/{file}"));
    let none = runs.iter().find(|run| read(run, "tags/mlflow.runName") == "train/prune=none").unwrap();
    assert_eq!(read(none, "metrics/loss"), "1767225660000 2.5 300\n");
    assert_eq!(read(none, "metrics/curves/loss").lines().last(), Some("1767225660000 2.5 300"));
    assert_eq!(read(none, "params/lr"), "0.1");
    let meta = read(none, "meta.yaml");
    for line in ["start_time: 1767225600000", "end_time: 1767225660000", "status: 3", "run_name: \"train/prune=none\""]
    {
        assert!(meta.contains(line), "{line}: {meta}");
    }
    let expected = json!({
        "runs": 2, "status": "FINISHED", "metrics": { "loss": 2.5, "curves/loss": 2.5 }, "params": { "lr": "0.1" },
        "host": "here", "curve": [[10, 4.0], [20, 3.25], [300, 2.5]],
    });
    ask("mlflow", MLFLOW, &sandbox.path("mlruns"), &expected);
}

#[test]
fn tensorboard_reads_what_is_exported() {
    let sandbox = finished();
    for _ in 0..2 {
        let ended = sandbox.sweep(&["export", "tensorboard", "tb", "recipe.yaml", "--backend", "cpu"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "2 jobs in tb\n"), "{}", ended.stderr);
    }
    let files = crate::sandbox::list(&sandbox.path("tb/train/prune=magnitude"));
    assert_eq!(files.len(), 1, "a second export replaces the first: {files:?}");
    let expected = json!({ "loss": [[10, 4.0], [20, 3.25], [300, 2.5]], "metrics/loss": [[300, 2.5]] });
    ask("tensorboard", READER, &sandbox.path("tb/train/prune=none"), &expected);
}

/// Reads the metrics, parameters and tags of the only run of a file store with the real package, where Python has it.
const ONE_RUN: &str = "
import json, os, sys
os.environ.update(MLFLOW_ALLOW_FILE_STORE='true', MLFLOW_DISABLE_TELEMETRY='true')
from mlflow.tracking import MlflowClient
client = MlflowClient('file://' + sys.argv[1])
found = client.search_experiments(filter_string=\"name = 'train'\")[0]
run = next(run for run in client.search_runs([found.experiment_id]) if run.info.run_name == 'train/prune=none')
print(json.dumps({'metrics': run.data.metrics, 'params': run.data.params,
    'facts': {name: fact for name, fact in run.data.tags.items() if name.startswith('fact.')}}))
";

/// Names that other programs do not take, or take for each other.
const NAMES: [&str; 16] = [
    "точность",
    "скорость",
    "a:b",
    "a_b",
    "r@5",
    "r#5",
    "r_x0040_5",
    "Loss",
    "loss",
    "curves/loss",
    "metrics/loss",
    "train",
    "train/loss",
    "train_loss",
    "../up",
    "सटीकता",
];

/// The forms of these names in `MLflow`, and of the curve `loss`.
const FORMS: [&str; 17] = [
    "точность",
    "скорость",
    "a:b",
    "a_b",
    "r_x0040_5",
    "r_x0023_5",
    "r_x005f_x0040_5",
    "_x004c_oss",
    "loss",
    "metrics/curves/loss",
    "metrics/metrics/loss",
    "train",
    "train_x002f_loss",
    "train_loss",
    "_x002e_./up",
    "सट_x0940_कत_x093e_",
    "curves/loss",
];

#[test]
fn no_metric_is_lost_on_the_way_to_mlflow() {
    let metrics =
        NAMES.iter().enumerate().map(|(value, name)| ((*name).to_owned(), json!({ "value": value, "unit": "1" })));
    let sandbox = finished_with(&Value::Object(metrics.collect()));
    let ended = sandbox.sweep(&["export", "mlflow", "recipe.yaml", "--output", "mlruns", "--backend", "cpu"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("note: `r@5` is `r_x0040_5` in MLflow"), "{}", ended.stderr);
    let mut read = Vec::new();
    let mut open = vec![sandbox.path("mlruns")];
    while let Some(folder) = open.pop() {
        for path in crate::sandbox::list(&folder) {
            let text = path.display().to_string();
            if path.is_dir() {
                open.push(path);
            } else if let Some((_, name)) = text.split_once("/metrics/").filter(|(run, _)| run.len() > 32) {
                read.push((name.to_owned(), fs_err::read_to_string(&path).unwrap()));
            }
        }
    }
    let names: std::collections::BTreeSet<&str> = read.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names.len(), read.len()), (NAMES.len() + 1, 2 * (NAMES.len() + 1)), "{names:?}");
    let mut expected = serde_json::Map::new();
    for (value, form) in FORMS[..NAMES.len()].iter().enumerate() {
        assert!(names.contains(form), "{form}: {names:?}");
        expected.insert((*form).to_owned(), json!(value as f64));
    }
    expected.insert("curves/loss".into(), json!(2.5));
    let params = json!({ "lr": "0.1", "long": "x".repeat(6000) });
    ask(
        "mlflow",
        ONE_RUN,
        &sandbox.path("mlruns"),
        &json!({ "metrics": expected, "params": params, "facts": { "fact.a_x0022_b": "one\ntwo" } }),
    );
    assert!(ended.stderr.contains("2 values are longer than 6000 characters"), "{}", ended.stderr);
}

#[test]
fn no_metric_is_lost_on_the_way_to_tensorboard() {
    let metrics =
        NAMES.iter().enumerate().map(|(value, name)| ((*name).to_owned(), json!({ "value": value, "unit": "1" })));
    let sandbox = finished_with(&Value::Object(metrics.collect()));
    let ended = sandbox.sweep(&["export", "tensorboard", "recipe.yaml", "--output", "tb", "--backend", "cpu"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut expected = serde_json::Map::new();
    for (value, name) in NAMES.iter().enumerate() {
        expected.insert(format!("metrics/{name}"), json!([[300, value as f64]]));
    }
    expected.insert("loss".into(), json!([[10, 4.0], [20, 3.25], [300, 2.5]]));
    ask("tensorboard", READER, &sandbox.path("tb/train/prune=none"), &Value::Object(expected));
}

/// Every reader of comma-separated values, JSON and Parquet files finds all columns.
#[test]
fn no_metric_is_lost_in_a_query() {
    let metrics =
        NAMES.iter().enumerate().map(|(value, name)| ((*name).to_owned(), json!({ "value": value, "unit": "1" })));
    let sandbox = finished_with(&Value::Object(metrics.collect()));
    let ended = sandbox.sweep(&["query", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    let read: Value = serde_json::from_str(&ended.stdout).unwrap();
    let row = read["records"][0].as_object().unwrap();
    for (value, name) in NAMES.iter().enumerate() {
        assert_eq!(row.get(*name), Some(&json!(value as f64)), "{name}: {row:?}");
    }
    let ended = sandbox.sweep(&["query", "recipe.yaml", "--backend", "cpu", "--format", "csv"]);
    let header: Vec<&str> = ended.stdout.lines().next().unwrap().split(',').collect();
    let distinct: std::collections::BTreeSet<&&str> = header.iter().collect();
    assert_eq!(distinct.len(), header.len(), "{header:?}");
    assert!(NAMES.iter().all(|name| header.contains(name)), "{header:?}");
}

/// A study with two trainings that have records.
pub(crate) fn finished() -> Sandbox {
    finished_with(&json!({ "loss": { "value": 2.5, "unit": "nats" } }))
}

/// The same with these metrics, and, if they are not those of a training, with a long parameter and a fact.
fn finished_with(metrics: &Value) -> Sandbox {
    let sandbox = Sandbox::with("name: e\nsteps: { train: { uses: train, matrix: { prune: [none, magnitude] } } }\n");
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    for job in plan["jobs"].as_array().unwrap() {
        let key = job["key"].as_str().unwrap();
        let is_plain = metrics.as_object().unwrap().len() == 1;
        let params = if is_plain { json!({ "lr": 0.1 }) } else { json!({ "lr": 0.1, "long": "x".repeat(7000) }) };
        let facts = if is_plain { json!({}) } else { json!({ "a\"b": "one\ntwo" }) };
        let record = json!({
            "format": 1, "key": key, "label": job["label"], "params": params,
            "identity": { "format": 1, "task": "train", "revision": 1 },
            "outcome": {
                "metrics": metrics,
                "facts": facts,
                "curves": { "loss": { "unit": "nats", "at": [10, 20, 300], "values": [4.0, 3.25, 2.5] } },
            },
            "provenance": { "sweep": "0", "started": "2026-01-01T00:00:00Z", "seconds": 60.0, "threads": 1, "host": "here" },
        });
        let folder = format!("results/store/{}/{key}", &key[..2]);
        fs_err::create_dir_all(sandbox.path(&folder)).unwrap();
        sandbox.write(&format!("{folder}/record.json"), &record.to_string());
    }
    sandbox
}

/// Python with the packages of other programs: that of the folder in `SWEEP_PYTHON_EXPORTS`, or of where
/// `scripts/python-deps.sh` installs it, or `python3`.
pub(crate) fn python() -> PathBuf {
    let made = || std::env::home_dir().map(|home| home.join(".cache/sweep/exports"));
    let installed = std::env::var_os("SWEEP_PYTHON_EXPORTS").map(PathBuf::from).or_else(made);
    let python = installed.map(|folder| folder.join("bin/python")).filter(|python| python.exists());
    python.unwrap_or_else(|| "python3".into())
}

/// Reads the exported files with another package's program; prints a note if Python lacks the package.
fn ask(package: &str, program: &str, folder: &Path, expected: &Value) {
    match Command::new(python()).args(["-c", program]).arg(folder).output() {
        Ok(output) if output.status.success() => {
            let read: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(read, *expected);
        }
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            assert!(why.contains("ModuleNotFoundError"), "{package} is there and cannot read: {why}");
            eprintln!("{package} was not asked: Python does not have it");
        }
        Err(error) => eprintln!("{package} was not asked: Python cannot be started: {error}"),
    }
}

/// Other programs show values without their units: those of one name and kind have one unit, and others are named.
#[test]
fn values_in_several_units_are_exported_in_one() {
    let recipe = "
steps:
  a:
    uses: command
    matrix: { text: ['t=1500 ms', 't=1.5 s'] }
    with: { argv: [echo, '${{ matrix.text }}'] }
  b:
    uses: command
    matrix: { text: ['r=5 ms', 'r=5 GiB'] }
    with: { argv: [echo, '${{ matrix.text }}'] }
";
    let sandbox = Sandbox::with(recipe);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let ended = sandbox.sweep(&["export", "mlflow", "recipe.yaml", "--output", "mlruns"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("`r` of b is in several units, so its values are not comparable there"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("`t`"), "{}", ended.stderr);
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs_err::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let runs: Vec<PathBuf> = below(&sandbox.path("mlruns")).iter().flat_map(|experiment| below(experiment)).collect();
    let values = runs.iter().filter_map(|run| fs_err::read_to_string(run.join("metrics/t")).ok());
    let values: Vec<f64> = values.map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    assert!(values.len() == 2 && values[0].to_bits() == values[1].to_bits(), "{values:?}");
}
