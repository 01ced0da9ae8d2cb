//! Keys: pinned for the shipped recipes, changed by every parameter, and unchanged by equivalent texts.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use sweep_engine::{
    plan::Plan,
    recipe::Draft,
    record::{Identity, Needed},
};
use sweep_job::{Backend, Kind, Param, Task, TaskInfo, Value, Values};

fn keys(path: &Path, text: String) -> Vec<(String, String)> {
    let plan = Plan::new(Draft::parse(path, text, &[]).unwrap(), Backend::Cpu).unwrap();
    plan.jobs().map(|(_, job)| (job.label.to_string(), job.key.to_string())).collect()
}

/// Whoever changes a line here makes everybody's finished jobs of that kind run again, and means it.
#[test]
fn keys_of_the_shipped_recipes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut text = String::new();
    for path in paths {
        writeln!(text, "{}", path.file_name().unwrap().display()).unwrap();
        for (label, key) in keys(&path, std::fs::read_to_string(&path).unwrap()) {
            writeln!(text, "  {} {label}", &key[..12]).unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

/// Another value than the default that the parameter accepts.
fn another(param: &Param) -> Option<Value> {
    let default = (param.default)();
    let candidates = match param.kind {
        Kind::Bool => vec![Value::Bool(true), Value::Bool(false)],
        Kind::Int => vec![Value::Int(7), Value::Int(1), Value::Int(0), Value::Int(300)],
        Kind::Float => vec![Value::Float(0.25), Value::Float(0.0), Value::Float(2.0)],
        Kind::Choice(words) => words.iter().map(|word| Value::Text((*word).to_owned())).collect(),
        Kind::Text
        | Kind::Path(_)
        | Kind::Scalar
        | Kind::Variable
        | Kind::Inside
        | Kind::Folder
        | Kind::Any
        | Kind::Either(..) => {
            vec![Value::Text("other".into())]
        }
        Kind::List(_) => vec![Value::List(vec![Value::Text("other".into())])],
        Kind::Map(Kind::Int) => vec![Value::Map([("OTHER".to_owned(), Value::Int(7))].into())],
        Kind::Map(_) => vec![Value::Map([("OTHER".to_owned(), Value::Text("other".into()))].into())],
    };
    candidates.into_iter().filter_map(|value| param.check(&value).ok()).find(|value| *value != default)
}

fn identity(task: &'static TaskInfo, given: Values) -> Identity {
    Identity::new(task, &task.complete(given), None, std::collections::BTreeMap::new(), Needed::default())
}

#[test]
fn every_parameter_changes_the_key_unless_it_is_cosmetic() {
    for task in Task::all() {
        let mut seen = BTreeSet::from([identity(task, Values::new()).key().unwrap()]);
        // A parameter that has one value today, such as `ablation`, has no other.
        for param in task.params().filter(|param| param.bounds.is_none_or(|bounds| bounds.min < bounds.max)) {
            let value = another(param).unwrap_or_else(|| panic!("{}: no other value for `{}`", task.name, param.name));
            let key = identity(task, Values::from([(param.name.to_owned(), value.clone())])).key().unwrap();
            assert_eq!(seen.insert(key), !param.cosmetic, "{}: `{}` = {value}", task.name, param.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Order, comments, quoting, number spelling, defaults written out, names and folders mean nothing.
    #[test]
    fn what_means_the_same_has_the_same_key(
        lr in 1e-6_f64..0.9, iters in 20_i64..2000, seed in 0_i64..100, flip in any::<[bool; 5]>(), name in "[a-z]{1,8}"
    ) {
        let plain = format!("steps:\n  a:\n    uses: train\n    with:\n      lr: {lr}\n      iters: {iters}\n      seed: {seed}\n");
        let mut lines = vec![
            if flip[0] { format!("lr: {lr:e}") } else { format!("lr: {lr} # a comment") },
            if flip[1] { format!("iters: {iters}.0") } else { format!("iters: {iters}") },
            format!("seed: ${{{{ params.{name} }}}}"),
        ];
        if flip[2] {
            lines.reverse();
        }
        if flip[3] {
            lines.push("batch_size: 8\n      prune: 'none'".to_owned());
        }
        let other = format!(
            "# elsewhere\nname: {name}\nparams: {{ {name}: {seed} }}\nsteps:\n  {name}:\n    with:\n      {}\n    uses: train\n",
            lines.join("\n      ")
        );
        let folder = if flip[4] { "/somewhere/else.yaml" } else { "here.yaml" };
        let (plain, other) = (keys(Path::new("plain.yaml"), plain), keys(Path::new(folder), other));
        prop_assert_eq!(&plain[0].1, &other[0].1);
    }

    /// Another value is another key.
    #[test]
    fn what_does_not_has_another(a in 1e-6_f64..0.9, b in 1e-6_f64..0.9) {
        let key = |lr: f64| keys(Path::new("x.yaml"), format!("steps: {{ a: {{ uses: train, with: {{ lr: {lr} }} }} }}"))[0].1.clone();
        prop_assert_eq!(a.to_bits() == b.to_bits(), key(a) == key(b));
    }
}
