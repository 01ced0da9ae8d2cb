//! Training scripts in Python as jobs: PyTorch, Lightning and the Trainer of transformers, and the lab beside PyTorch.
//!
//! Runs where a Python has these packages: `SWEEP_TEST_PYTHON`, else the one that `scripts/python-deps.sh` makes.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of a `python3` with the packages, or why there is none.
fn python() -> Result<PathBuf, String> {
    let made = std::env::home_dir().map(|home| home.join(".cache/sweep/transformers/bin/python3"));
    let named = std::env::var_os("SWEEP_TEST_PYTHON").map(PathBuf::from);
    let python = named.or(made.filter(|path| path.exists())).ok_or("there is no such environment")?;
    // Importing them would take a second of processor time.
    let missing = "import importlib.util as u, sys; print(*[name for name in sys.argv[1:] if not u.find_spec(name)])";
    let output = Command::new(&python)
        .args(["-c", missing, "torch", "transformers", "accelerate", "lightning"])
        .output()
        .map_err(|error| error.to_string())?;
    let missing = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{}: {}", python.display(), String::from_utf8_lossy(&output.stderr).trim()));
    }
    if !missing.trim().is_empty() {
        return Err(format!("{} lacks {}", python.display(), missing.trim()));
    }
    Ok(python.parent().unwrap_or(Path::new("/")).to_owned())
}

/// A folder in which `sweep` runs, with that Python first on the path.
struct Study {
    folder: tempfile::TempDir,
    path: String,
}

impl Study {
    /// `None`, with the reason on standard error, where the packages are missing.
    fn new() -> Option<Self> {
        match python() {
            Ok(python) => {
                let rest = std::env::var("PATH").unwrap_or_default();
                Some(Self { folder: tempfile::tempdir().unwrap(), path: format!("{}:{rest}", python.display()) })
            }
            Err(reason) => {
                eprintln!("not run: no PyTorch with its friends here ({reason}); scripts/python-deps.sh installs them");
                None
            }
        }
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("PYTHONPATH", root().join("python"))
            .env("CI", "1")
            .env_remove("SWEEP_RESULTS")
            .stdin(Stdio::null());
        command
    }

    fn sweep(&self, args: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_sweep"), args).output().unwrap()
    }

    /// Runs a shipped recipe, which must succeed.
    fn run(&self, recipe: &str, args: &[&str]) -> Output {
        let path = root().join("recipes").join(recipe);
        let output = self.sweep(&[&["run", path.to_str().unwrap()], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        output
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Every record, by label.
    fn records(&self) -> BTreeMap<String, Value> {
        self.records_in("results")
    }

    /// The same of another folder of results.
    fn records_in(&self, results: &str) -> BTreeMap<String, Value> {
        let files = glob(&self.path(results).join("store"), "record.json");
        let records = files.iter().map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap());
        records.map(|record: Value| (record["label"].as_str().unwrap().to_owned(), record)).collect()
    }
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The files with a name below a folder.
fn glob(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(glob(&path, name));
        } else if entry.file_name() == name {
            found.push(path);
        }
    }
    found
}

/// The steps and the values of a record's curve.
fn curve(record: &Value, name: &str) -> Vec<(u64, f64)> {
    let curve = &record["outcome"]["curves"][name];
    let numbers = |part: &str| curve[part].as_array().unwrap_or_else(|| panic!("no curve {name}: {record}")).iter();
    numbers("at").map(|at| at.as_u64().unwrap()).zip(numbers("values").map(|value| value.as_f64().unwrap())).collect()
}

fn metric(record: &Value, name: &str) -> f64 {
    record["outcome"]["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("no {name} in {record}"))
}

#[test]
fn a_study_in_pytorch_has_curves_and_figures() {
    let Some(study) = Study::new() else { return };
    let args = ["--set", "iters=20", "--axis", "lr=1e-3", "--axis", "seed=0", "--axis", "dropout=0.0,0.2"];
    study.run("pytorch.yaml", &args);
    let records = study.records();
    assert_eq!(records.len(), 2, "{records:?}");
    for (label, record) in &records {
        let loss = curve(record, "loss");
        assert_eq!(loss.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [10, 20], "{label}");
        assert!(loss[1].1 < loss[0].1, "{label} learns: {loss:?}");
        assert_eq!(curve(record, "val_loss").len(), 1, "{label}");
        assert_eq!(metric(record, "loss").to_bits(), loss[1].1.to_bits(), "{label}: the last value is the metric");
        assert!(metric(record, "tokens_per_s") > 0.0);
    }
    let figures = glob(&study.path("results/reports"), "held-out.svg");
    assert!(std::fs::read_to_string(&figures[0]).unwrap().contains("<svg"), "{figures:?}");
}

/// Killed at once, with everything that it has started; the next run goes on where the last checkpoint ends and computes what
/// an undisturbed one does.
#[test]
fn a_killed_training_resumes_from_its_checkpoint() {
    let Some(study) = Study::new() else { return };
    let recipe = format!(
        "steps:
  train:
    uses: command
    with:
      argv: [python3, train.py, \"${{{{ flags }}}}\"]
      params: {{ iters: 60, checkpoint_every: 5, log_every: 1, eval_every: 30, dropout: 0.2, d_model: 32 }}
      inputs: [{0}/examples/pytorch/train.py, {0}/crates/lab/data/kjv.txt]
    resources: {{ cpus: 1 }}
",
        root().display()
    );
    std::fs::write(study.path("recipe.yaml"), recipe).unwrap();
    let mut engine = study.command(env!("CARGO_BIN_EXE_sweep"), &["run", "recipe.yaml"]).spawn().unwrap();
    wait_for(&mut engine, || !glob(&study.path("results/store"), "state.pt").is_empty());
    engine.kill().unwrap();
    engine.wait().unwrap();
    assert!(study.records().is_empty(), "it was killed in the middle");

    let rest = study.sweep(&["run", "recipe.yaml"]);
    assert_eq!(rest.status.code(), Some(0), "{}", told(&rest));
    let whole = study.sweep(&["--results", "undisturbed", "run", "recipe.yaml"]);
    assert_eq!(whole.status.code(), Some(0), "{}", told(&whole));
    let resumed = study.records().into_values().next().unwrap();
    let undisturbed = glob(&study.path("undisturbed/store"), "record.json");
    let undisturbed: Value = serde_json::from_slice(&std::fs::read(&undisturbed[0]).unwrap()).unwrap();
    for name in ["loss", "val_loss", "lr"] {
        assert_eq!(curve(&resumed, name), curve(&undisturbed, name), "{name}");
    }
    assert_eq!(curve(&resumed, "loss").len(), 60);
    assert!(metric(&resumed, "attempts") > 1.5, "{resumed}");
}

/// Waits until something holds, for at most five minutes, while a process runs.
fn wait_for(process: &mut Child, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(process.try_wait().unwrap().is_none(), "it has ended early");
        assert!(begun.elapsed() < Duration::from_mins(5), "nothing happens");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn lightning_and_transformers_report_through_their_adapters() {
    let Some(study) = Study::new() else { return };
    for (recipe, held_out) in [("lightning.yaml", "val_loss"), ("hf-trainer.yaml", "eval_loss")] {
        study.run(recipe, &["--set", "steps=20", "--axis", "width=16", "--axis", "seed=0"]);
        let name = recipe.trim_end_matches(".yaml");
        let record = study.records().into_values().next().unwrap();
        let loss = curve(&record, "loss");
        assert!(loss.len() >= 3, "{name}: {loss:?}");
        assert!(loss.last().unwrap().1 < loss[0].1, "{name} learns: {loss:?}");
        assert!(metric(&record, held_out) < 5.6, "{name}");
        std::fs::remove_dir_all(study.path("results")).unwrap();
    }
}

/// The steps that the jobs of these records have made, without those in the states with which they began.
fn steps(records: &BTreeMap<String, Value>) -> u64 {
    let own = |record: &Value| {
        let end = record["params"]["until"].as_u64().unwrap();
        end - record["provenance"]["continued"]["step"].as_u64().unwrap_or(0)
    };
    records.values().map(own).sum()
}

/// The shipped search with shorter trainings: rungs at 4, 12 and 36 of 108 steps.
fn short_search(at: &str, rates: &str) -> String {
    let shipped = std::fs::read_to_string(root().join("recipes/pytorch-search.yaml")).unwrap();
    let changes = [
        ("../examples", format!("{}/examples", root().display())),
        ("../crates", format!("{}/crates", root().display())),
        ("at: [30, 90, 270]", format!("at: [{at}]")),
        ("iters: 270", "iters: 108".to_owned()),
        ("width: 64", "width: 16".to_owned()),
        ("until: 30", "until: 4".to_owned()),
        ("lr: [3e-4, 1e-3, 3e-3]", format!("lr: [{rates}]")),
    ];
    changes.into_iter().fold(shipped, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, &to)
    })
}

/// Nine configurations at three rungs: a quarter of the steps of the grid, and the best has the result of a training without
/// a pause. Extensions train what is new, and the rest only.
#[test]
fn a_search_in_pytorch_trains_the_rest_only() {
    let Some(study) = Study::new() else { return };
    let run = |results: &str, text: &str, more: &[&str]| {
        std::fs::write(study.path("recipe.yaml"), text).unwrap();
        let output = study.sweep(&[&["--results", results, "run", "recipe.yaml"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    };
    let rates = "3e-4, 1e-3, 3e-3";
    run("results", &short_search("4, 12, 36", rates), &[]);
    let first = study.records();
    let at = |until: u64| first.values().filter(move |record| record["params"]["until"] == until).count();
    assert_eq!((at(4), at(12), at(36)), (9, 3, 1), "{:?}", first.keys());
    assert_eq!(steps(&first), 9 * 4 + 3 * 8 + 24);
    assert!(steps(&first) * 100 <= 9 * 36 * 45, "at most 45 % of the grid");
    assert!(first.values().all(|record| metric(record, "val_loss").is_finite()));

    // The best one, trained without a pause.
    let (label, best) = first.iter().find(|(_, record)| record["params"]["until"] == 36).unwrap();
    run("unbroken", &short_search("4, 12, 36", rates), &["--only", label]);
    let unbroken = study.records_in("unbroken");
    assert_eq!(unbroken.keys().collect::<Vec<_>>(), [label]);
    let unbroken = &unbroken[label];
    assert_eq!(
        (best["provenance"]["continued"]["step"].as_u64(), steps(&[(label.clone(), unbroken.clone())].into())),
        (Some(12), 36)
    );
    assert_eq!(best["key"], unbroken["key"]);
    for name in ["loss", "lr", "val_loss"] {
        let (parts, whole) = (curve(best, name), curve(unbroken, name));
        let bits = |points: &[(u64, f64)]| -> Vec<(u64, u64)> {
            points.iter().map(|(step, value)| (*step, value.to_bits())).collect()
        };
        // A rung ends with a report and an evaluation of its own; everything else is the same.
        let parts: Vec<(u64, f64)> =
            parts.into_iter().filter(|(step, _)| whole.iter().any(|(other, _)| other == step)).collect();
        assert_eq!(bits(&parts), bits(&whole), "{name}");
    }
    assert_eq!(metric(best, "val_loss").to_bits(), metric(unbroken, "val_loss").to_bits());

    // Again: nothing.
    let again = study.sweep(&["run", "recipe.yaml"]);
    assert!(told(&again).contains("13 cached"), "{}", told(&again));
    assert_eq!(study.records().len(), 13);

    // Another rung: the survivor, and the rest of its steps.
    run("results", &short_search("4, 12, 36, 108", rates), &[]);
    let longer = study.records();
    let new: BTreeMap<String, Value> =
        longer.iter().filter(|(label, _)| !first.contains_key(*label)).map(|(l, r)| (l.clone(), r.clone())).collect();
    assert_eq!((new.len(), steps(&new)), (1, 72), "{:?}", new.keys());

    // Another rate: the jobs of the new ranking that have no result, each from where it was.
    run("results", &short_search("4, 12, 36, 108", "3e-4, 1e-3, 3e-3, 1e-2"), &[]);
    let extended = study.records();
    // The ranking, computed here: the best third of those that reached a rung.
    let mut wanted: Vec<String> = Vec::new();
    let configuration = |label: &String| label.split(",until=").next().unwrap().to_owned();
    let mut going: Vec<String> = extended.keys().map(configuration).collect();
    going.dedup();
    assert_eq!(going.len(), 12);
    for until in [4, 12, 36, 108] {
        let label = |configuration: &String| format!("{configuration},until={until}");
        wanted.extend(going.iter().map(label));
        going.sort_by(|a, b| {
            let loss = |own: &String| metric(&extended[&label(own)], "val_loss");
            loss(a).total_cmp(&loss(b))
        });
        going.truncate((going.len() / 3).max(1));
    }
    let added: Vec<&String> = extended.keys().filter(|label| !longer.contains_key(*label)).collect();
    wanted.retain(|label| !longer.contains_key(label));
    wanted.sort();
    assert_eq!(added, wanted.iter().collect::<Vec<_>>());
    assert!((3..=3 + 4 + 1 + 1).contains(&added.len()), "{added:?}");
    // Each from where it was.
    for (label, record) in extended.iter().filter(|(label, _)| !longer.contains_key(*label)) {
        let before = [(12, 4), (36, 12), (108, 36)].into_iter().find(|(end, _)| record["params"]["until"] == *end);
        let from = record["provenance"]["continued"]["step"].as_u64();
        assert_eq!(from, before.map(|(_, step)| step), "{label}");
    }
}

/// The blocks of code of a language in a text.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    text.split(open.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// The tutorial of docs/pytorch.md, step by step: what it shows is what is run.
#[test]
fn the_tutorial_goes_from_a_script_to_a_figure() {
    let Some(study) = Study::new() else { return };
    let tutorial = std::fs::read_to_string(root().join("docs/pytorch.md")).unwrap();
    let (python, yaml, shell) = (blocks(&tutorial, "python"), blocks(&tutorial, "yaml"), blocks(&tutorial, "sh"));
    std::fs::write(study.path("train.py"), python[0]).unwrap();
    std::fs::write(study.path("study.yaml"), yaml[0]).unwrap();
    let by_hand = study.command("python3", &["train.py", "--lr", "0.03"]).output().unwrap();
    assert!(by_hand.status.success() && told(&by_hand).is_empty(), "{}", told(&by_hand));

    // The first block installs. Each line of the others is a command of `sweep`.
    let commands: Vec<&str> = shell[1..].iter().flat_map(|block| block.lines()).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    let run = |line: &str| {
        let args: Vec<&str> = line.split(' ').collect();
        assert_eq!(args[0], "sweep");
        let output = study.sweep(&args[1..]);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", told(&output));
        told(&output)
    };
    let first = run(commands[0]);
    assert!(first.contains("9 jobs: 9 done") && first.contains("faster-is-better: supported"), "{first}");
    let figure = std::fs::read_to_string(study.path("results/reports/sine/figures/loss.svg")).unwrap();
    assert!(figure.contains("0.003") && figure.contains("0.03"), "the rates are its legend");
    assert!(study.path("results/reports/sine/index.html").exists());
    assert!(run(commands[1]).contains("9 jobs: 9 cached"));
    assert!(run(commands[2]).contains("12 jobs: 9 cached, 3 done"));

    // With the lines for checkpoints, the script still computes the same.
    let lines: Vec<&str> = python[1].lines().filter(|line| line.contains("sweep.")).collect();
    let [import, load, head, report, save] = lines[..] else { panic!("{lines:?}") };
    let resumable = python[0]
        .replace("import sweep\n", &format!("{import}\n"))
        .replace(head, &format!("{load}\n{head}"))
        .replace("    sweep.report(step, loss=loss.item())", &format!("{report}\n{save}"));
    std::fs::write(study.path("train.py"), resumable).unwrap();
    let output = study.sweep(&["--results", "resumable", "run", "study.yaml", "--only", "train/lr=0.01,seed=0"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let again = glob(&study.path("resumable/store"), "record.json");
    let again: Value = serde_json::from_slice(&std::fs::read(&again[0]).unwrap()).unwrap();
    let before = study.records().remove(again["label"].as_str().unwrap()).unwrap();
    assert_eq!(curve(&again, "loss"), curve(&before, "loss"));
}

/// The script and the recipe of the README.
#[test]
fn the_study_of_the_readme_runs() {
    let Some(study) = Study::new() else { return };
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let script = blocks(&text, "python")[0];
    assert!(script.lines().filter(|line| !line.is_empty() && !line.starts_with("import")).count() <= 10, "{script}");
    std::fs::write(study.path("train.py"), script).unwrap();
    std::fs::write(study.path("study.yaml"), blocks(&text, "yaml")[0]).unwrap();
    let by_hand = study.command("python3", &["train.py"]).output().unwrap();
    assert!(by_hand.status.success() && told(&by_hand).is_empty(), "{}", told(&by_hand));
    let output = study.sweep(&["run", "study.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("9 jobs: 9 done"), "{}", told(&output));
    assert!(told(&output).contains("faster-is-better: supported"), "{}", told(&output));
    assert!(study.path("results/reports/sine/figures/loss.svg").exists());
}

/// The same network on the same batches: the losses of the lab and of PyTorch agree in every step. With other batches they
/// do not, and the recipe says so.
#[cfg(feature = "cpu")]
#[test]
fn the_lab_trains_as_pytorch_does() {
    let Some(study) = Study::new() else { return };
    study.run("parity-pytorch.yaml", &["--backend", "cpu", "--strict"]);
    let claims = std::fs::read(study.path("results/reports/parity-pytorch/claims.json")).unwrap();
    let claims: Vec<Value> = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims.len(), 4);
    assert!(claims.iter().all(|claim| claim["state"] == "supported"), "{claims:?}");
    let records = study.records();
    let compared: Vec<&Value> =
        records.iter().filter(|(label, _)| label.starts_with("compare")).map(|(_, r)| r).collect();
    assert_eq!(compared.len(), 2);
    for record in compared {
        assert_eq!(curve(record, "loss.difference").len(), 50);
        assert!(curve(record, "loss.lab").last().unwrap().1 < 4.0, "it has learned something");
        assert!(metric(record, "loss.difference") <= 1e-4, "{record}");
    }

    let shipped = std::fs::read_to_string(root().join("recipes/parity-pytorch.yaml")).unwrap();
    let absolute = shipped.replace("../", &format!("{}/", root().display()));
    let other = absolute.replace("        dropout: 0\n", "        dropout: 0\n        seed: 1\n");
    assert_ne!(absolute, other);
    std::fs::write(study.path("other.yaml"), other).unwrap();
    let refuted = study.sweep(&["run", "other.yaml", "--backend", "cpu", "--strict"]);
    assert_eq!(refuted.status.code(), Some(6), "{}", told(&refuted));
}
