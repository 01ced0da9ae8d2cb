//! The study of the example, by the example's own program.

use std::{path::Path, process::Command};

use serde_json::Value;

const STUDY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/study.yaml");

fn run(program: &Path, folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(program).current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn own_lab() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_own-lab"))
}

/// The jobs of the study's plan, in JSON.
fn planned(program: &Path, folder: &Path) -> Vec<Value> {
    let (code, plan, error) = run(program, folder, &["plan", STUDY, "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let plan: Value = serde_json::from_str(&plan).unwrap();
    plan["jobs"].as_array().unwrap().clone()
}

fn cached(jobs: &[Value]) -> usize {
    jobs.iter().filter(|job| job["status"] == "cached").count()
}

/// Mean of a metric over the records of the jobs whose labels have this part.
fn mean(folder: &Path, part: &str, metric: &str) -> f64 {
    let (code, rows, error) = run(own_lab(), folder, &["query", STUDY, "--format", "json"]);
    assert_eq!(code, Some(0), "{error}");
    let rows: Value = serde_json::from_str(&rows).unwrap();
    let rows = rows.as_array().unwrap();
    let of_part = rows.iter().filter(|row| row["label"].as_str().is_some_and(|label| label.contains(part)));
    let values: Vec<f64> = of_part.map(|row| row[metric].as_f64().unwrap()).collect();
    assert!(!values.is_empty(), "{part}: {rows:?}");
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn own_tasks_are_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();

    let (code, listed, _) = run(own_lab(), folder, &["tasks"]);
    assert_eq!(code, Some(0));
    for name in ["train", "shapes", "recurrence"] {
        assert!(listed.contains(name), "{listed}");
    }
    let (_, described, _) = run(own_lab(), folder, &["tasks", "shapes"]);
    assert!(described.contains("Number of residual blocks"), "{described}");

    let (code, _, error) = run(own_lab(), folder, &["run", STUDY, "--set", "heads=3"]);
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("3 heads do not divide a width of 32 into even parts"), "{error}");

    let (code, tables, error) = run(own_lab(), folder, &["run", STUDY]);
    assert_eq!(code, Some(0), "{error}");
    assert!(tables.contains("Shapes found"), "{tables}");
    assert!(mean(folder, "residual=true", "accuracy") > 0.8, "{tables}");
    assert!(mean(folder, "mlp=swiglu/rope=true", "loss") < mean(folder, "mlp=swiglu/rope=false", "loss"), "{tables}");

    let jobs = planned(own_lab(), folder);
    assert_eq!((jobs.len(), cached(&jobs)), (12, 12));
}

#[test]
fn another_program_computes_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let few_steps = ["--only", "resnet", "--set", "steps=1"];
    let with = |command: &'static str| [&[command, STUDY], &few_steps[..]].concat();
    let (code, _, error) = run(own_lab(), folder, &with("run"));
    assert_eq!(code, Some(0), "{error}");

    // The same program with a byte behind its end: another build.
    let other = folder.join("other");
    fs_err::copy(own_lab(), &other).unwrap();
    let mut bytes = fs_err::read(&other).unwrap();
    bytes.push(0);
    fs_err::write(&other, bytes).unwrap();
    let (code, plan, error) = run(&other, folder, &with("plan"));
    assert_eq!(code, Some(0), "{error}");
    assert!(plan.contains("4 to run"), "{plan}");
    let (_, plan, _) = run(own_lab(), folder, &with("plan"));
    assert!(plan.contains("4 cached"), "{plan}");
    let (_, reason, error) = run(&other, folder, &[&["explain", STUDY], &few_steps[2..]].concat());
    assert!(reason.contains("program"), "{reason}{error}");
}
