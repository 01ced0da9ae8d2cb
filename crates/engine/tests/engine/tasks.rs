//! `sweep tasks` and `sweep schema`.

use serde_json::Value;

use crate::sandbox::Sandbox;

#[test]
fn tasks_on_a_terminal() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.sweep(&["tasks"]).stdout);
    insta::assert_snapshot!(sandbox.sweep(&["tasks", "check"]).stdout);
    for task in ["train", "eval", "check", "mock"] {
        let ended = sandbox.sweep(&["tasks", task]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        let widest = ended.stdout.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
    }
}

#[test]
fn tasks_for_machines() {
    let sandbox = Sandbox::new();
    let json = |args: &[&str]| -> Value { serde_json::from_str(&sandbox.sweep(args).stdout).unwrap() };
    let all = json(&["tasks", "--format", "json"]);
    let names: Vec<&str> = all["tasks"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    let by_themselves =
        ["train", "eval", "tokenize", "gradprobe", "generate", "check", "coordinates", "parity", "k1", "profile"];
    assert_eq!(names[..10], by_themselves);
    assert_eq!(names[10..14], ["bench/batch-size", "bench/threshold", "bench/mask-update", "bench/masking"]);
    let pairs = &names[14..30];
    assert!(pairs.iter().all(|name| name.starts_with("pair/")), "{names:?}");
    assert_eq!(names[30..], ["command", "imported"]);
    let mut check = json(&["tasks", "check", "--format", "json"]);
    check.as_object_mut().unwrap().remove("next");
    assert_eq!(all["tasks"][5], check);
    insta::assert_snapshot!(sandbox.sweep(&["tasks", "mock", "--format", "json"]).stdout);
}

#[test]
fn an_unknown_task_is_a_usage_error() {
    let ended = Sandbox::new().sweep(&["tasks", "trian"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!(ended.stderr);
}

#[test]
fn the_schema_is_the_checked_in_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipe.schema.json");
    let ended = Sandbox::new().sweep(&["schema"]);
    assert_eq!(ended.code, Some(0));
    let stale = "docs/recipe.schema.json is stale: UPDATE_DOCS=1 cargo test -p sweep-engine --test schema";
    assert!(ended.stdout == fs_err::read_to_string(file).unwrap(), "{stale}");
}
