//! Stores that earlier versions of the program have written. `testdata/stores/README.md` says how they were made.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use sweep_engine::{record, run::RunFolder, store::Store};

use crate::{
    messages::{Transcript, settled, sorted},
    sandbox::{Ended, Sandbox, list, repository},
};

/// The earlier versions, by the days of their commits.
const VERSIONS: [&str; 3] = ["2026-11-20", "2026-11-25", "2026-11-26"];

/// Sizes on the disk, and durations with decimals, which depend on the file system and on the machine.
const SIZE: &str = r" *\b[\d.]+ (?:Ki|Mi)?B\b";

/// The age of a run or a record, which grows.
const AGE: &str = r"(?:\d+ \w+ )*(?:\[time\] ago|\[then\]|\d+ \w+ ago)";

/// A version's study as its program left it.
fn restored(version: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    copy(&repository().join("crates/engine/tests/engine/testdata/stores").join(version), &sandbox.path(""));
    unpack(&sandbox, "results.tar.gz");
    sandbox
}

fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for path in list(from) {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs_err::copy(&path, target).map(drop).unwrap();
        }
    }
}

fn unpack(sandbox: &Sandbox, archive: &str) {
    let status = Command::new("tar").args(["-xzf", archive]).current_dir(sandbox.path("")).status().unwrap();
    assert!(status.success(), "{archive}: {status}");
}

fn uncompress(sandbox: &Sandbox, archive: &str) {
    let status = Command::new("gzip").args(["-d", archive]).current_dir(sandbox.path("")).status().unwrap();
    assert!(status.success(), "{archive}: {status}");
}

/// Runs a command that has to succeed.
fn done(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = sandbox.sweep(args);
    assert_eq!(ended.code, Some(0), "{args:?}: {}{}", ended.stdout, ended.stderr);
    ended
}

/// The heading of a case, in which the version does not look like a date, for which snapshots have a placeholder.
fn heading(version: &str, case: &str) -> String {
    format!("{}: {case}", version.replace('-', ""))
}

/// All that a command printed.
fn said(ended: &Ended) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

/// The numbers of a table by row and metric: the mean or the difference, and the number of samples.
fn numbers(csv: &str) -> BTreeMap<String, (f64, String)> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    // The columns of numbers come after the axes, which may have the same names.
    let place = |names: &[&str]| header.iter().rposition(|name| names.contains(name)).unwrap();
    let (metric, value, n) = (place(&["metric"]), place(&["mean", "value"]), place(&["n"]));
    let rows = lines.filter_map(|cells| {
        let number: f64 = cells[value].parse().ok()?;
        Some((cells[..=metric].join(" "), (number, cells[n].to_owned())))
    });
    rows.collect()
}

/// The numbers of all tables.
fn tables(sandbox: &Sandbox) -> BTreeMap<String, BTreeMap<String, (f64, String)>> {
    let files = list(&sandbox.path("results/reports/study/tables")).into_iter();
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "csv"));
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), numbers(&fs_err::read_to_string(&path).unwrap()))).collect()
}

/// The jobs that the latest run has started.
fn started(sandbox: &Sandbox, run: &str) -> Vec<String> {
    let journal = sandbox.read(&format!("results/runs/{run}/journal.jsonl"));
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut labels: Vec<String> = lines
        .filter(|line| !line["event"]["started"].is_null())
        .map(|line| line["label"].as_str().unwrap().to_owned())
        .collect();
    labels.sort();
    labels
}

/// The folders of records.
fn records(sandbox: &Sandbox) -> Vec<PathBuf> {
    let shards = list(&sandbox.path("results/store")).into_iter();
    shards.filter(|path| path.file_name().unwrap().len() == 2).flat_map(|shard| list(&shard)).collect()
}

/// The keys of the records.
fn keys(sandbox: &Sandbox) -> BTreeSet<String> {
    records(sandbox).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// A reader must not silently ignore a file that an earlier version has written.
#[test]
fn nothing_of_then_is_passed_over() {
    for version in VERSIONS {
        let sandbox = restored(version);
        let results = sandbox.path("results");
        let store = Store::open(&results).unwrap();
        assert_eq!(store.index().unwrap().len(), records(&sandbox).len(), "{version}");
        assert_eq!(store.all_decisions().unwrap().len(), list(&results.join("store/decisions")).len(), "{version}");
        let steps = list(&results.join("store/states"));
        assert_eq!(
            store.states().unwrap().len(),
            steps.iter().map(|step| list(step).len()).sum::<usize>(),
            "{version}"
        );
        let manifests = fs_err::read(results.join("store/manifests/list.jsonl")).unwrap_or_default();
        for line in manifests.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let manifest = record::Line::parse(line).manifest().unwrap();
            assert!(store.set(&manifest.set).is_some(), "{version}: {manifest:?}");
        }
        for name in sandbox.runs() {
            let run = RunFolder::named(&results, &name);
            assert!(!run.manifest().unwrap().jobs.is_empty(), "{version}: {name}");
            let lines = sandbox.read(&format!("results/runs/{name}/journal.jsonl")).lines().count();
            assert_eq!(run.events().unwrap().len(), lines, "{version}: {name}");
        }
    }
}

#[test]
fn tables_have_the_numbers_of_then() {
    let mut transcript = Transcript::default();
    for version in VERSIONS {
        let sandbox = restored(version);
        let then = tables(&sandbox);
        assert!(then.len() >= 5, "{then:?}");
        let report = done(&sandbox, &["report", "study.yaml"]);
        transcript.add(&heading(version, "report"), &said(&report));
        let now = tables(&sandbox);
        for (table, rows) in &then {
            // Scripts with a pipe have another revision of their task since the third version, and run again.
            let runs_again = [(VERSIONS[0], "first"), (VERSIONS[1], "piped")].contains(&(version, table.as_str()));
            for (row, (number, n)) in rows.iter().filter(|_| !runs_again) {
                let (current, count) = now[table].get(row).unwrap_or_else(|| panic!("{version} {table} {row}"));
                // The first two versions have stored and shown times in seconds, whatever the metric is called.
                let factor = if row.ends_with("_ms") && version < VERSIONS[2] { 1000.0 } else { 1.0 };
                let expected = number * factor;
                assert!((current - expected).abs() <= 1e-12 * expected.abs(), "{version} {table} {row}: {current}");
                // Equal measurements of different seeds count once since the third version.
                assert!(count == n || table == "guesses", "{version} {table} {row}: {count} of {n}");
            }
        }
    }
    assert_message!(transcript);
}

#[test]
fn the_plan_has_what_is_cached_and_why_the_rest_runs() {
    let mut transcript = Transcript::default();
    for version in VERSIONS {
        let sandbox = restored(version);
        let states = sandbox.planned(&["study.yaml"]);
        let states: Vec<String> = states.iter().map(|(label, state)| format!("{state}  {label}")).collect();
        transcript.add(&heading(version, "jobs"), &states.join("\n"));
        transcript.add(&heading(version, "reasons"), &said(&done(&sandbox, &["plan", "--why", "study.yaml"])));
    }
    assert_message!(transcript);
}

/// Records of the second version do not name the files that their programs read: the list in the store does.
#[test]
fn an_edit_of_what_a_program_read_then_counts() {
    const JOB: &str = "tune/lr=0.3,seed=0,until=2";
    for version in &VERSIONS[1..] {
        let sandbox = restored(version);
        let observed = done(&sandbox, &["show", JOB]).stdout;
        assert!(!observed.contains("not observed"), "{version}: {observed}");
        let (old_keys, old_key) = (keys(&sandbox), sandbox.records()[JOB]["key"].as_str().unwrap().to_owned());
        let shape = sandbox.read("shape.py");
        sandbox.write("shape.py", &shape.replace("abs(x) ** power\n", "2 * abs(x) ** power\n"));
        let planned = sandbox.planned(&["study.yaml"]);
        let tuned = planned.iter().filter(|(label, state)| label.starts_with("tune/") && *state == "to run").count();
        assert_eq!(tuned, 4, "{version}: {planned:?}");
        assert_eq!(planned["logs/factor=1"], "cached", "{version}: another program");
        done(&sandbox, &["run", "study.yaml", "--only", JOB]);
        let new_keys: Vec<String> = keys(&sandbox).difference(&old_keys).cloned().collect();
        assert_eq!(new_keys.len(), 1, "{version}: {new_keys:?}");
        let difference = done(&sandbox, &["diff", &old_key[..12], &new_keys[0][..12]]).stdout;
        assert!(difference.contains("shape.py"), "{version}: {difference}");
        sandbox.write("shape.py", &shape);
        assert_eq!(sandbox.planned(&["study.yaml"])[JOB], "cached", "{version}: what was before is valid again");
    }
}

#[test]
fn a_run_continues_the_study() {
    let mut transcript = Transcript::default();
    for version in VERSIONS {
        let sandbox = restored(version);
        let before = sandbox.runs();
        let run = sandbox.sweep(&["run", "study.yaml"]);
        assert_eq!(run.code, Some(5), "{version}: a job is skipped because one that it needs failed: {}", run.stderr);
        transcript.add(&heading(version, "run"), &settled(&run.stderr));
        let runs = sandbox.runs();
        let new: Vec<String> = runs.iter().filter(|run| !before.contains(run)).cloned().collect();
        assert_eq!(new.len(), 1, "{new:?}");
        transcript.add(&heading(version, "started"), &started(&sandbox, &new[0]).join("\n"));
        transcript.add(&heading(version, "tally"), &format!("{:?}", sandbox.tally()));
        let verified = done(&sandbox, &["cache", "verify"]);
        assert!(verified.stderr.ends_with(": 0 defects\n"), "{}", said(&verified));
    }
    assert_message!(transcript);
}

#[test]
fn the_store_is_listed_verified_and_cleared() {
    let mut transcript = Transcript::default();
    for version in VERSIONS {
        let sandbox = restored(version);
        let mut add = |case: &str, text: &str| transcript.add(&heading(version, case), text);
        add("list", &sorted(&said(&done(&sandbox, &["cache", "ls"]))));
        add("verify", &said(&done(&sandbox, &["cache", "verify"])));
        let all = records(&sandbox).len();
        let listed = done(&sandbox, &["cache", "gc", "study.yaml", "--recent", "0s"]);
        add("gc", &(sorted(&listed.stdout) + "\n" + &listed.stderr));
        assert_eq!(records(&sandbox).len(), all, "nothing was removed");
        let planned = sandbox.planned(&["study.yaml"]);
        let removed = done(&sandbox, &["cache", "gc", "study.yaml", "--recent", "0s", "--yes"]);
        add("gc --yes", &(sorted(&removed.stdout) + "\n" + &removed.stderr));
        add("records", &sandbox.records().into_keys().collect::<Vec<_>>().join("\n"));
        assert_eq!(sandbox.planned(&["study.yaml"]), planned, "what the recipe needs is there");
        add("verify again", &said(&done(&sandbox, &["cache", "verify"])));
    }
    assert_message!(transcript, SIZE => " [size]");
}

#[test]
fn results_are_exported_bundled_and_queried() {
    let mut transcript = Transcript::default();
    for version in VERSIONS {
        let sandbox = restored(version);
        let mut add = |case: &str, text: &str| transcript.add(&heading(version, case), text);
        for form in ["mlflow", "tensorboard", "croissant"] {
            add(form, &said(&done(&sandbox, &["export", form, "study.yaml", "--output", form])));
        }
        let columns = "label,metrics.loss,metrics.value";
        add("query", &said(&done(&sandbox, &["query", "study.yaml", "--select", columns])));
        add("curves", &said(&done(&sandbox, &["query", "study.yaml", "--curves"])));
        add("bundle", &said(&done(&sandbox, &["bundle", "create", "study.yaml", "--output", "new.tar"])));
        add("bundle verify", &said(&done(&sandbox, &["bundle", "verify", "new.tar"])));
    }
    assert_message!(transcript, SIZE => " [size]");
}

#[test]
fn archives_and_bundles_are_read() {
    let mut transcript = Transcript::default();
    for version in VERSIONS {
        let sandbox = restored(version);
        let mut add = |case: &str, text: &str| transcript.add(&heading(version, case), text);
        uncompress(&sandbox, "archive.tar.gz");
        let elsewhere = |args: &[&str]| done(&sandbox, &[&["--results", "elsewhere"], args].concat());
        add("import", &said(&elsewhere(&["cache", "import", "archive.tar"])));
        add("list", &said(&elsewhere(&["cache", "ls"])));
        add("verify", &said(&elsewhere(&["cache", "verify"])));
        if sandbox.path("bundle.tar.gz").exists() {
            uncompress(&sandbox, "bundle.tar.gz");
            add("bundle", &said(&done(&sandbox, &["bundle", "verify", "bundle.tar"])));
        }
    }
    assert_message!(transcript, SIZE => " [size]");
}

/// Jobs of each version: a job with curves or a metrics file, a similar job, a failed job, and a job of another
/// program.
const SHOWN: [[&str; 4]; 3] = [
    ["descend/lr=0.3,seed=0", "descend/lr=0.1,seed=0", "broken", "count/lr=0.3,seed=0"],
    ["tune/lr=0.3,seed=0,until=4", "tune/lr=0.1,seed=0,until=2", "broken", "logs/factor=3"],
    ["tune/lr=0.3,seed=0,until=4", "tune/lr=0.1,seed=0,until=2", "broken", "words/word=two"],
];

#[test]
fn runs_of_then_are_shown() {
    let mut transcript = Transcript::default();
    for (version, jobs) in VERSIONS.into_iter().zip(SHOWN) {
        let sandbox = restored(version);
        let mut add = |case: &str, text: &str| transcript.add(&heading(version, case), text);
        let runs = sandbox.runs();
        for (number, run) in runs.iter().enumerate() {
            add(&format!("status {}", number + 1), &done(&sandbox, &["status", run, "--all"]).stdout);
        }
        let [job, alike, failed, program] = jobs;
        for job in [job, failed, program] {
            add(&format!("show {job}"), &said(&sandbox.sweep(&["show", job])));
            add(&format!("logs {job}"), &said(&sandbox.sweep(&["logs", job])));
        }
        for job in [job, failed] {
            add(&format!("explain {job}"), &said(&done(&sandbox, &["explain", "study.yaml", job])));
        }
        let records = sandbox.records();
        let [one, other] = [job, alike].map(|job| &records[job]["key"].as_str().unwrap()[..12]);
        add("diff of jobs", &said(&done(&sandbox, &["diff", one, other])));
        add("diff of runs", &said(&done(&sandbox, &["diff", &runs[0], &runs[1]])));
    }
    assert_message!(transcript, SIZE => " [size]", AGE => "[then]");
}

#[cfg(feature = "ui")]
#[test]
fn runs_of_then_are_served() {
    for version in VERSIONS {
        let sandbox = restored(version);
        let (_server, port) = crate::serve::serve(&sandbox);
        let get = |path: &str| crate::serve::ask(port, "GET", path, "localhost");
        let index = get("/");
        for run in sandbox.runs() {
            assert!(index.contains(&run), "{version}: {run}");
            let page = get(&format!("/runs/{run}"));
            assert!(page.starts_with("HTTP/1.1 200"), "{version}: {page}");
            for label in started(&sandbox, &run) {
                // The page has the points of a step together.
                let name = label.split_once('/').map_or(&*label, |(_, point)| point);
                assert!(page.contains(&format!("{name}\"")), "{version}: {run} has {label}");
            }
        }
    }
}
