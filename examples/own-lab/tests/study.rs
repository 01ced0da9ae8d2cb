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

/// Mean of a metric over the records with these values.
fn mean(folder: &Path, metric: &str, of: &[(&str, Value)]) -> f64 {
    let (code, found, error) = run(own_lab(), folder, &["query", STUDY, "--format", "json"]);
    assert_eq!(code, Some(0), "{error}");
    let found: Value = serde_json::from_str(&found).unwrap();
    let records = found["records"].as_array().unwrap().iter();
    let records = records.filter(|record| of.iter().all(|(name, value)| record[*name] == *value));
    let values: Vec<f64> = records.map(|record| record[metric].as_f64().unwrap()).collect();
    assert_eq!(values.len(), 2, "{of:?}: {found}");
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
    // Chance finds a shape in 1 of 4 images.
    let shapes = |residual: bool| mean(folder, "accuracy", &[("residual", residual.into())]);
    assert!(shapes(true) > 0.4 && shapes(true) > shapes(false) + 0.1, "{tables}");
    // Chance finds a token in 1 of 7.
    let found = mean(folder, "accuracy", &[("mlp", "swiglu".into()), ("rope", true.into())]);
    assert!(found > 0.9, "{tables}");

    let (_, plan, _) = run(own_lab(), folder, &["plan", STUDY]);
    assert!(plan.contains("12 cached, 0 to run"), "{plan}");
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
    assert!(plan.contains("4 to run") && plan.contains("program changed"), "{plan}");
    let (_, plan, _) = run(own_lab(), folder, &with("plan"));
    assert!(plan.contains("4 cached, 0 to run"), "{plan}");
}
