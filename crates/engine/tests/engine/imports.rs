//! `sweep import`: stores of other programs become studies. `testdata/import/README.md` has the origin of the stores.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox};

/// The mean losses at the learning rates 0.1 and 0.2 over three seeds, by the formula in `testdata/import/README.md`.
const LOSSES: [f64; 2] = [1.276_667, 1.386_667];

fn store(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/testdata");
    folder.join(name).display().to_string()
}

fn imported(sandbox: &Sandbox, arguments: &[&str]) -> Ended {
    let ended = sandbox.sweep(&[&["import"], arguments].concat());
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
    ended
}

/// Number of rows of a study's table.
fn rows(sandbox: &Sandbox, study: &str) -> usize {
    let report = sandbox.sweep(&["report", study, "--format", "json"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let cells = report.pointer("/reports/0/tables/0/cells").and_then(Value::as_array).unwrap();
    let rows: BTreeSet<String> = cells.iter().map(|cell| cell["at"].to_string()).collect();
    rows.len()
}

/// A copy of a folder, which a test may change.
fn copied(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let there = to.join(entry.file_name());
        if entry.path().is_dir() {
            copied(&entry.path(), &there);
        } else {
            fs_err::copy(entry.path(), there).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn every_store_becomes_a_table_with_intervals_by_one_command() {
    // The runs that have a value, and all of them.
    let stores = [
        ("mlruns", "MLflow", 8),
        ("mlflow.db", "MLflow", 8),
        ("wandb", "Weights & Biases", 8),
        ("optuna.db", "Optuna", 8),
        ("optuna.log", "Optuna", 8),
        ("trackio", "trackio", 7),
        ("multirun", "Hydra", 6),
        ("runs", "TensorBoard", 6),
        ("neptune", "Neptune", 8),
    ];
    for (name, program, number) in stores {
        let sandbox = Sandbox::new();
        let ended = imported(&sandbox, &[&store(&format!("import/{name}")), "-o", "study.yaml"]);
        let begin = format!("study.yaml: {number} runs of {program}, `{name}`: ");
        assert!(ended.stdout.starts_with(&begin), "{}", ended.stdout);
        assert!(ended.stdout.contains("3 seeds in 2 configurations"), "{}", ended.stdout);
        let shown = if name == "multirun" { "1.110 ± 0.025" } else { "1.277 ± 0.025" };
        assert!(ended.stdout.contains(shown), "one command shows the table: {}", ended.stdout);
        let records = sandbox.records();
        assert_eq!(records.len(), number, "{name}");
        let all: Vec<&Value> = records.values().collect();
        assert!(all.iter().all(|record| record["identity"]["task"] == "imported"));
        let is_whole =
            |record: &&&Value| record["outcome"]["metrics"].as_object().is_some_and(|found| !found.is_empty());
        for (lr, expected) in [0.1, 0.2].iter().zip(LOSSES) {
            let expected = if name == "multirun" { 1.0 + lr + 0.01 } else { expected };
            let of_lr = all.iter().filter(is_whole).filter(|record| record["params"]["params"]["lr"] == *lr);
            let values: Vec<f64> = of_lr
                .map(|record| {
                    let metrics = record["outcome"]["metrics"].as_object().unwrap();
                    let names = ["val/loss", "value", "loss"];
                    names.iter().find_map(|name| metrics.get(*name)?["value"].as_f64()).unwrap()
                })
                .collect();
            assert_eq!(values.len(), 3, "{name}");
            let mean = values.iter().sum::<f64>() / 3.0;
            assert!((mean - expected).abs() < 2e-6, "{name}: {mean}, expected {expected}");
        }
        assert!(rows(&sandbox, "study.yaml") >= 2, "{name}");
        let report = sandbox.sweep(&["report", "study.yaml"]).stdout;
        assert!(report.contains(shown), "{name}: {report}");
        assert!(report.contains(&format!("records imported from {program}, `{name}`; `sweep` did not run them")));
        let curves = all.iter().filter(|record| record["outcome"]["curves"].as_object().is_some()).count();
        assert!(name == "multirun" || curves >= 6, "{name}: {curves} curves");
    }
}

#[test]
fn an_imported_record_is_marked_wherever_it_is_shown() {
    let sandbox = Sandbox::new();
    imported(&sandbox, &["mlflow", &store("import/mlruns")]);
    let mark = "MLflow, `mlruns`";
    let records = sandbox.records();
    let label = records.keys().find(|label| label.contains("seed=1")).unwrap();
    let key = records[label]["key"].as_str().unwrap();
    let show = sandbox.sweep(&["show", key]).stdout;
    assert!(show.contains(&format!("imported from {mark}; `sweep` did not run it")), "{show}");
    assert!(!show.contains(" by sweep "), "{show}");
    let explain = sandbox.sweep(&["explain", "mlruns.yaml", label]).stdout;
    assert!(explain.contains(&format!("was imported from {mark}")), "{explain}");
    let json: Value = serde_json::from_str(&sandbox.sweep(&["show", key, "--format", "json"]).stdout).unwrap();
    assert!(json.to_string().contains("MLflow, `mlruns`"), "{json}");
    for format in ["term", "md", "latex", "json"] {
        let report = sandbox.sweep(&["report", "mlruns.yaml", "--format", format]).stdout;
        assert!(report.contains("imported from MLflow"), "{format}: {report}");
    }
    let query = sandbox.sweep(&["query", "--select", "task,run", "--format", "csv"]).stdout;
    assert_eq!(query.matches("imported").count(), 8, "{query}");
    assert_eq!(sandbox.sweep(&["run", "mlruns.yaml"]).code, Some(0), "all jobs are done");
    let page = sandbox.read("results/reports/mlruns/index.html");
    assert!(page.contains("imported from MLflow"));
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    let bundle = sandbox.sweep(&["bundle", "create", "mlruns.yaml", "--output", "b.tar"]);
    assert_eq!(bundle.code, Some(0), "{}", bundle.stderr);
    let verified = sandbox.sweep(&["bundle", "verify", "b.tar"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stdout.contains("imported from: MLflow, `mlruns`"), "{}", verified.stdout);
    assert!(!verified.stdout.contains("host: "), "{}", verified.stdout);
    let again = sandbox.sweep(&["bundle", "verify", "b.tar", "--rerun", "2", "--yes"]);
    assert!(again.stderr.contains("8 runs of other programs cannot run again"), "{}", again.stderr);
}

#[test]
fn a_further_import_adds_new_runs_and_changed_ones_and_leaves_the_study() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("mlruns");
    copied(Path::new(&store("import/mlruns")), &folder);
    let first = imported(&sandbox, &["mlruns"]);
    assert!(
        first
            .stdout
            .contains("7 finished, 1 failed (1 with values that are not finite); 8 records new, 0 in the store")
    );
    let study = sandbox.read("mlruns.yaml");
    sandbox.write("mlruns.yaml", &format!("{study}# mine\n"));
    let again = imported(&sandbox, &["mlruns"]);
    assert!(again.stdout.contains("0 records new, 8 in the store already"), "{}", again.stdout);
    assert!(sandbox.read("mlruns.yaml").ends_with("# mine\n"));
    // A run that was copied, and a value that a run has logged since.
    let metric = files(&folder).into_iter().find(|path| path.ends_with("metrics/val/loss")).unwrap();
    let run = metric.ancestors().nth(3).unwrap();
    let other = run.with_file_name("0123456789abcdef0123456789abcdef");
    copied(run, &other);
    let text = fs_err::read_to_string(&metric).unwrap();
    fs_err::write(&metric, format!("{text}1795734999999 0.5 3\n")).unwrap();
    let third = imported(&sandbox, &["mlruns"]);
    assert!(third.stdout.contains("9 runs of MLflow"), "{}", third.stdout);
    assert!(third.stdout.contains("2 records new, 7 in the store already"), "{}", third.stdout);
    let report = sandbox.sweep(&["report", "mlruns.yaml"]);
    assert!(report.stdout.contains("9 of 9 records imported"), "{}", report.stdout);
}

#[test]
fn claims_are_judged_over_imported_runs() {
    let sandbox = Sandbox::new();
    imported(&sandbox, &[&store("import/wandb"), "-o", "study.yaml"]);
    let study = sandbox.read("study.yaml");
    let claim = "
claims:
  smaller-is-better:
    says: The smaller learning rate has the smaller loss.
    difference: { metric: val/loss, of: { step: runs, lr: 0.2 }, to: { step: runs, lr: 0.1, seed: [0, 1, 2] } }
    expect: { more_than: 0 }
";
    sandbox.write("study.yaml", &format!("{study}{claim}"));
    let report = sandbox.sweep(&["report", "study.yaml"]);
    assert!(report.stdout.contains("smaller-is-better"), "{}{}", report.stdout, report.stderr);
    assert!(report.stdout.contains("0.11"), "{}", report.stdout);
    let best = sandbox.sweep(&["best", "study.yaml", "--by", "val/loss"]);
    assert_eq!(best.code, Some(0), "{}", best.stderr);
    assert!(best.stdout.contains("1.277") && !best.stdout.contains("run="), "{}", best.stdout);
}

#[test]
fn runs_without_a_seed_are_independent_repetitions() {
    let sandbox = Sandbox::new();
    sandbox.write("n.csv", "method,val_acc\na,0.81\na,0.82\na,0.83\nb,0.91\nb,0.92\nb,0.94\n");
    let ended = imported(&sandbox, &["n.csv"]).stdout;
    assert!(ended.contains("no parameter is a seed, so runs of a configuration are its repetitions"), "{ended}");
    assert!(ended.contains("They have 3 runs, and 2 would suffice"), "{ended}");
    let best = sandbox.sweep(&["best", "n.yaml", "--by", "val_acc"]).stdout;
    assert!(best.contains("0.923") && best.contains("0.820"), "the means of three runs: {best}");
    // Methods with a run each are told apart, also beside a parameter that is constant.
    sandbox.write("methods.csv", "method,lr,loss\nsgd,0.1,0.5\nadam,0.1,0.3\nlion,0.1,0.2\n");
    imported(&sandbox, &["methods.csv"]);
    assert_eq!(rows(&sandbox, "methods.yaml"), 3);
    let study = sandbox.read("n.yaml");
    let more = "
  effects: { from: runs, effects: { interactions: false }, cells: [val_acc] }
claims:
  better:
    says: b is better.
    difference: { metric: val_acc, of: { step: runs, method: b }, to: { step: runs, method: a } }
    expect: { more_than: 0 }
";
    sandbox.write("n.yaml", &format!("{study}{more}"));
    let report = sandbox.sweep(&["report", "n.yaml"]);
    assert!(report.stdout.contains("3 against 3, not paired"), "{}{}", report.stdout, report.stderr);
    assert_eq!(sandbox.sweep(&["run", "n.yaml"]).code, Some(0));
    let setup = sandbox.read("results/reports/n/setup.md");
    assert!(setup.contains("6 records imported from CSV"), "{setup}");
}

#[test]
fn the_public_leaderboard_is_a_study_of_its_results() {
    let sandbox = Sandbox::new();
    let losses = imported(&sandbox, &[&store("leaderboard/losses.csv"), "--axes", "result"]).stdout;
    assert!(
        losses.starts_with("losses.yaml: 532 runs of CSV, `losses.csv`: 532 finished; 532 records new"),
        "{losses}"
    );
    assert!(losses.contains("46 configurations: "), "{losses}");
    assert_eq!(rows(&sandbox, "losses.yaml"), 46);
    let best = sandbox.sweep(&["best", "losses.yaml", "--by", "loss", "--top", "1"]).stdout;
    assert!(best.lines().any(|line| line.trim_start().starts_with("1   4 ")), "result 4 has the smallest mean: {best}");
    // `date`, `record`, `seeds` and `steps` are columns of the published table.
    let results = imported(&sandbox, &["csv", &store("leaderboard/results.csv"), "--metric", "loss"]).stdout;
    assert!(results.contains("46 runs of CSV"), "{results}");
    assert_eq!(rows(&sandbox, "results.yaml"), 46);
}

#[test]
fn runs_cannot_be_run_and_the_message_names_the_remedy() {
    let sandbox = Sandbox::new();
    imported(&sandbox, &[&store("import/runs"), "-o", "study.yaml"]);
    fs_err::remove_dir_all(sandbox.path("results")).unwrap();
    let run = sandbox.sweep(&["run", "study.yaml"]);
    assert_eq!(run.code, Some(5), "{}", run.stderr);
    let all = format!("{}{}", run.stdout, run.stderr);
    assert!(all.contains("import it again with `sweep import tensorboard`"), "{all}");
}

#[test]
fn an_export_of_neptune_has_its_ends_and_says_which_parts_are_left_out() {
    let sandbox = Sandbox::new();
    // A project, the folder of the projects, and the folder above, which has files of the runs, too.
    let projects = Path::new(&store("import/neptune")).to_owned();
    let project = fs_err::read_dir(&projects).unwrap().next().unwrap().unwrap().path();
    copied(&projects, &sandbox.path("exports/data"));
    fs_err::create_dir_all(sandbox.path("exports/files")).unwrap();
    for (index, path) in [project.display().to_string(), "exports".to_owned()].iter().enumerate() {
        let found = imported(&sandbox, &["neptune", path, "-o", &format!("{index}.yaml")]);
        assert!(found.stdout.contains("7 finished, 1 failed (1 with values that are not finite)"), "{}", found.stdout);
    }
    let ended = imported(&sandbox, &[&projects.display().to_string(), "-o", "study.yaml"]);
    for expected in [
        "2 of 10 runs skipped: 1: in the trash at its source; 1: its export is not finished",
        "6 attributes of Neptune's own are left out: `sys/`, `monitoring/` and `source_code/`",
        "steps of `grid/share` are not whole numbers: the points are numbered from 0",
    ] {
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    let records = sandbox.records();
    let first = records.values().find(|record| record["outcome"]["facts"]["run"] == "DIG-1").unwrap();
    let params = &first["params"]["params"];
    assert_eq!(params["project"], "team/digits");
    assert_eq!((&params["lr"], &params["seed"], &params["opt.name"]), (&0.1.into(), &0.into(), &"adam".into()));
    let outcome = &first["outcome"];
    assert_eq!(outcome["curves"]["val/loss"]["at"], serde_json::json!([0, 1, 2]), "the parts are in order");
    assert_eq!(outcome["metrics"]["test/acc"]["value"], 0.89, "a single value with a usual name is a metric");
    assert!(outcome["curves"].get("monitoring/0/cpu").is_none());
    assert_eq!(
        (&first["provenance"]["started"], &first["provenance"]["seconds"]),
        (&"2026-11-26T12:00:00Z".into(), &2.5.into())
    );
}

#[test]
fn a_file_that_is_none_of_neptune_is_named() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("exports/p");
    fs_err::create_dir_all(&folder).unwrap();
    let items = Path::new(&store("items.parquet")).to_owned();
    fs_err::copy(&items, folder.join("a_part_0.parquet")).unwrap();
    let ended = sandbox.sweep(&["import", "exports"]);
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stderr.contains("there are no runs of Neptune (1 left out: a file of the run cannot be read)"),
        "{}",
        ended.stderr
    );
    let ended = sandbox.sweep(&["import", "neptune", &items.display().to_string()]);
    assert!(ended.stderr.contains("it has no files `RUN_part_0.parquet`"), "{}", ended.stderr);
}

#[test]
fn the_answer_as_json_has_the_study_and_all_that_is_said() {
    let sandbox = Sandbox::new();
    let ended = imported(&sandbox, &[&store("import/neptune"), "-o", "study.yaml", "--format", "json"]);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&answer["recipe"], &answer["kind"]), (&"study.yaml".into(), &"neptune".into()));
    assert_eq!(answer["runs"], serde_json::json!({ "finished": 7, "failed": 1, "running": 0, "diverged": 1 }));
    assert_eq!((&answer["records"]["new"], &answer["records"]["known"]), (&8.into(), &0.into()));
    assert!(answer["axes"].as_array().unwrap().contains(&serde_json::json!({ "axis": "lr", "param": "lr" })));
    assert_eq!(answer["skipped"].as_array().unwrap().len(), 2);
    assert!(answer["reports"][0]["tables"][0]["cells"].as_array().unwrap().len() > 2, "{answer}");
    assert!(answer["advice"][0].as_str().unwrap().contains("3 seeds in 2 configurations"), "{answer}");
    assert!(ended.stderr.contains(answer["notices"][0].as_str().unwrap()), "{}", ended.stderr);
    assert_eq!(answer["next"][0], "sweep report study.yaml");
}

#[test]
fn of_many_configurations_the_best_are_shown_and_a_recipe_that_no_longer_fits_is_named() {
    let sandbox = Sandbox::new();
    let rows: Vec<String> = (0..41).map(|lr| format!("{lr},0,{}\n{lr},1,{}\n", lr + 2, lr + 3)).collect();
    sandbox.write("n.csv", &format!("lr,seed,loss\n{}", rows.concat()));
    let ended = imported(&sandbox, &["n.csv"]);
    assert!(ended.stderr.contains("the best of 41 configurations by loss:"), "{}", ended.stderr);
    let ranks = ended.stdout.lines().filter(|line| line.trim_start().starts_with("10 ")).count();
    assert_eq!((ranks, ended.stdout.contains("2.5")), (1, true), "{}", ended.stdout);
    let study = sandbox.read("n.yaml");
    sandbox.write("n.yaml", &study.replace("rows: [lr]", "rows: [width]"));
    sandbox.write("n.csv", "lr,seed,loss\n0,0,2\n0,1,3\n1,0,3\n1,1,4\n");
    let ended = imported(&sandbox, &["n.csv"]);
    assert!(ended.stderr.contains("note: n.yaml has no report: "), "{}", ended.stderr);
}

#[test]
fn a_torn_log_has_the_records_before_the_tear() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("wandb");
    copied(Path::new(&store("import/wandb")), &folder);
    let log = files(&folder).into_iter().find(|path| path.ends_with("run-run3.wandb")).unwrap();
    let whole = fs_err::read(&log).unwrap();
    for length in [0, 3, 7, 20, whole.len() / 3, whole.len() - 5] {
        fs_err::write(&log, &whole[..length]).unwrap();
        let ended = imported(&sandbox, &["wandb", "-o", &format!("cut-{length}.yaml")]);
        let is_empty = length < 7;
        let expected = if is_empty { "1 of 8 runs skipped: 1: the log is empty" } else { "" };
        assert!(ended.stderr.contains(expected), "{length}: {}", ended.stderr);
        assert_eq!(ended.stdout.contains("1 not ended"), !is_empty, "{length}: {}", ended.stdout);
    }
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs_err::write(&log, damaged).unwrap();
    let ended = imported(&sandbox, &["wandb", "-o", "damaged.yaml"]);
    assert!(ended.stderr.contains("the end of 1 log is truncated"), "{}", ended.stderr);
}

#[test]
fn a_database_in_use_has_what_is_committed() {
    let sandbox = Sandbox::new();
    let ended = imported(&sandbox, &[&store("import/live"), "-o", "study.yaml"]);
    assert!(ended.stdout.contains("8 runs of trackio"), "with `late`, without `never`: {}", ended.stdout);
    let records = sandbox.records();
    let late = records.keys().find(|label| label.contains("late@")).unwrap();
    assert_eq!(records[late]["outcome"]["metrics"]["val/loss"]["value"], 1.5);
}

#[test]
fn damaged_databases_are_errors() {
    let sandbox = Sandbox::new();
    let whole = fs_err::read(store("import/optuna.db")).unwrap();
    let mut refused = 0;
    for (index, length) in [10, 100, 511, 512, 5000, whole.len() - 700].into_iter().enumerate() {
        fs_err::write(sandbox.path("cut.db"), &whole[..length]).unwrap();
        let ended = sandbox.sweep(&["import", "optuna", "cut.db", "-o", &format!("{index}.yaml")]);
        assert!(matches!(ended.code, Some(0 | 2)), "{length}: {} {}", ended.stdout, ended.stderr);
        refused += usize::from(ended.code == Some(2));
    }
    assert!(refused >= 5, "{refused}");
    // Pages that point anywhere, themselves included.
    for seed in 0..40_usize {
        let mut damaged = whole.clone();
        for index in 0..40 {
            let at = 100 + (seed * 7919 + index * 104_729) % (whole.len() - 100);
            damaged[at] = u8::try_from((seed * 31 + index * 17) % 256).unwrap();
        }
        fs_err::write(sandbox.path("damaged.db"), damaged).unwrap();
        let ended = sandbox.sweep(&["import", "optuna", "damaged.db", "-o", &format!("damaged-{seed}.yaml")]);
        assert!(matches!(ended.code, Some(0 | 2 | 3)), "{seed}: {:?} {}", ended.code, ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
}

#[test]
fn names_and_values_of_any_text_are_data() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(500);
    let csv = format!(
        "run,lr,${{{{ params.x }}}},name: [a]\u{1b}[31m,zip,prompt,seed,val_acc\n../../a,0.1,${{{{ y }}}},\"a: b # c\",1,{long},0,0.5\n\
         \"b\u{202e}\",0.1,z,\"- x\",2,{long}y,1,0.25\nc,0.1,z,'q',1,{long},1,nan\n"
    );
    sandbox.write("runs.csv", &csv);
    let ended = imported(&sandbox, &["runs.csv"]);
    assert!(ended.stdout.contains("3 runs of CSV"), "{}", ended.stdout);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains('\u{1b}'));
    assert_eq!(sandbox.sweep(&["report", "runs.yaml"]).code, Some(0));
    assert_eq!(sandbox.records().len(), 3);
    // Numbers and texts that read alike are told apart from nothing.
    sandbox.write("mixed/a/.hydra/config.yaml", "width: 1\n");
    sandbox.write("mixed/a/metrics.json", "{\"loss\": 1}");
    sandbox.write("mixed/b/.hydra/config.yaml", "width: \"1\"\n");
    sandbox.write("mixed/b/metrics.json", "{\"loss\": NaN}");
    let ended = imported(&sandbox, &["hydra", "mixed"]);
    assert!(ended.stderr.contains("`width` has numbers and equal texts"), "{}", ended.stderr);
}

#[test]
fn mistakes_name_the_remedy() {
    let sandbox = Sandbox::new();
    sandbox.write("empty/readme.txt", "nothing");
    copied(Path::new(&store("import/mlruns")), &sandbox.path("two/mlruns"));
    copied(Path::new(&store("import/wandb")), &sandbox.path("two/wandb"));
    sandbox.write("a.csv", "lr,loss\n0.1,2\n");
    sandbox.write("a.yaml", "name: other\n");
    let cases: [(&[&str], &str); 8] = [
        (&["two"], "two has stores of several kinds (mlflow, wandb): name one"),
        (&["empty"], "is not a known kind of store; name its kind, as in `sweep import mlflow empty`: wandb, mlflow,"),
        (&["absent"], "cannot read absent"),
        (&["wand", "empty"], "`wand` is not a kind of store; did you mean `wandb`?"),
        (&["wandb", "empty"], "there are no runs of Weights & Biases"),
        (&["a.csv", "--axes", "lt"], "no run has the parameter `lt`; did you mean `lr`?"),
        (&["a.csv", "--metric", "lost"], "no run has the metric `lost`; the columns are `lr`, `loss`"),
        (&["a.csv"], "a.yaml"),
    ];
    for (arguments, expected) in cases {
        let ended = sandbox.sweep(&[&["import"], arguments].concat());
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(sandbox.read("a.yaml"), "name: other\n");
}

#[test]
fn names_with_line_breaks_stay_in_their_comments() {
    let sandbox = Sandbox::new();
    let metric = "loss\nsteps: { evil: { uses: command, with: { command: [touch, evil] } } }\n#";
    for (job, lr) in [("a", 0.1), ("b", 0.2)] {
        sandbox.write(&format!("jobs/{job}/.hydra/config.yaml"), &format!("lr: {lr}\n\"a\\nb\": {lr}\n"));
        let metrics = serde_json::json!({ metric: lr }).to_string();
        sandbox.write(&format!("jobs/{job}/metrics.json"), &metrics);
    }
    imported(&sandbox, &["hydra", "jobs"]);
    let study = sandbox.read("jobs.yaml");
    assert!(!study.lines().any(|line| line.starts_with("steps")), "{study}");
    let runs = sandbox.read("jobs.runs.yaml");
    assert_eq!(runs.lines().filter(|line| line.starts_with("steps")).count(), 1, "{runs}");
}

#[test]
fn a_second_store_of_the_same_name_replaces_no_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("a/n.csv", "run,lr,loss\nr1,0.1,1\nr2,0.2,2\nr3,0.3,3\n");
    sandbox.write("b/n.csv", "run,lr,loss\nq1,0.1,4\nq2,0.2,5\n");
    imported(&sandbox, &["a/n.csv"]);
    let runs = sandbox.read("n.runs.yaml");
    let ended = sandbox.sweep(&["import", "b/n.csv"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("n.runs.yaml has the runs of another store: name another recipe with `--output`"));
    assert_eq!(sandbox.read("n.runs.yaml"), runs);
    imported(&sandbox, &["b/n.csv", "--output", "other.yaml"]);
    sandbox.write("a/n.csv", "run,lr,loss\nr1,0.1,1\nr3,0.3,2.5\n");
    let ended = imported(&sandbox, &["a/n.csv"]);
    assert!(ended.stderr.contains("1 run of the earlier import is not in the store any more"), "{}", ended.stderr);
}

#[test]
fn another_choice_of_parameters_gives_unchanged_runs_a_second_record() {
    let sandbox = Sandbox::new();
    sandbox.write("n.csv", "run,lr,depth,loss\nr1,0.1,1,1\nr2,0.2,2,2\nr3,0.3,1,3\n");
    imported(&sandbox, &["n.csv", "--axes", "lr"]);
    let ended = imported(&sandbox, &["n.csv", "--axes", "lr"]);
    assert!(!ended.stderr.contains("second record"), "{}", ended.stderr);
    let ended = imported(&sandbox, &["n.csv"]);
    assert!(ended.stderr.contains("3 runs that did not change got a second record"), "{}", ended.stderr);
    let query = sandbox.sweep(&["query", "n.yaml", "--select", "run", "--format", "csv"]);
    assert_eq!(query.stdout.matches('@').count(), 3, "{}", query.stdout);
}

#[test]
fn folders_with_logs_are_a_study() {
    let sandbox = Sandbox::new();
    for (version, lr) in [(0, 0.1), (1, 0.2)] {
        let folder = format!("lightning_logs/version_{version}");
        sandbox.write(&format!("{folder}/hparams.yaml"), &format!("lr: {lr}\nseed: {version}\n"));
        let rows = format!("epoch,step,train_loss,val_loss\n0,0,{lr},\n0,1,0.5,\n0,1,,{lr}\n");
        sandbox.write(&format!("{folder}/metrics.csv"), &rows);
    }
    let ended = sandbox.sweep(&["import", "lightning_logs"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("val_loss") && ended.stdout.contains("0.200"), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("2 runs of folders with logs"), "{}{}", ended.stdout, ended.stderr);
}
