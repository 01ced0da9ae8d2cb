//! `sweep best`: the configurations of a step by the mean of a metric.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Gives every job of the recipe a record with the metrics of its values, or none.
pub(crate) fn measure(sandbox: &Sandbox, metrics: impl Fn(&BTreeMap<&str, &str>) -> Option<Value>) {
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--backend", "cpu", "--format", "json"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    for job in plan["jobs"].as_array().unwrap() {
        let (key, label) = (job["key"].as_str().unwrap(), job["label"].as_str().unwrap());
        let point = label.split_once('/').map_or("", |(_, point)| point);
        let values: BTreeMap<&str, &str> = point.split(',').filter_map(|value| value.split_once('=')).collect();
        let Some(metrics) = metrics(&values) else { continue };
        let record = json!({
            "format": 1, "key": key, "label": label, "params": {},
            "identity": { "format": 1, "task": "train", "revision": 1 },
            "outcome": { "metrics": metrics },
            "provenance": { "sweep": "0", "started": "2026-01-01T00:00:00Z", "seconds": 1.0, "threads": 1, "host": "here" },
        });
        let folder = format!("results/store/{}/{key}", &key[..2]);
        fs_err::create_dir_all(sandbox.path(&folder)).unwrap();
        sandbox.write(&format!("{folder}/record.json"), &record.to_string());
    }
}

/// The number of a value.
pub(crate) fn number(values: &BTreeMap<&str, &str>, axis: &str) -> f64 {
    values[axis].parse().unwrap()
}

const STUDY: &str = "\
name: tuned
steps:
  tune:
    uses: train
    matrix: { lr: [0.0001, 0.001, 0.01], dropout: [0, 0.1, 0.2], prune: [none] }
    seeds: 3
tables:
  losses: { from: tune, rows: [lr, dropout], cells: [loss] }
";

/// A loss that `lr` and `dropout` determine, with a part of the seed and noise of the configuration at a seed.
fn loss(values: &BTreeMap<&str, &str>) -> Value {
    let (lr, dropout, seed) = (number(values, "lr"), number(values, "dropout"), number(values, "seed"));
    let noise = 0.004 * (seed * 7.0 + dropout * 31.0 + lr.log10() * 3.0).sin();
    let loss = 2.0 + 0.2 * (lr.log10() + 3.0).powi(2) + 0.3 * dropout + 0.1 * seed + noise;
    json!({ "loss": { "value": loss, "unit": "nats" }, "time.step": { "value": 0.01 * (1.0 + lr), "unit": "s" } })
}

fn best(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ended = sandbox.sweep(&[&["best", "recipe.yaml", "--backend", "cpu", "--json"], args].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn configurations_are_ranked_by_their_mean_over_seeds() {
    let sandbox = Sandbox::with(STUDY);
    measure(&sandbox, |values| Some(loss(values)));
    let found = best(&sandbox, &[]);
    assert_eq!(
        (&found["metric"], &found["better"], &found["configurations"]),
        (&json!("loss"), &json!("min"), &json!(9))
    );
    let first = &found["best"][0];
    assert_eq!(first["values"], json!({ "lr": 0.001, "dropout": 0, "prune": "none" }));
    assert_eq!(
        (&first["rank"], &first["search"]["n"], &first["search"]["mark"]),
        (&json!(1), &json!(3), &json!("best"))
    );
    // The mean and Student's t interval of three seeds, computed here again.
    let values: Vec<f64> = ["0", "1", "2"]
        .map(|seed| {
            loss(&BTreeMap::from([("lr", "0.001"), ("dropout", "0"), ("seed", seed)]))["loss"]["value"]
                .as_f64()
                .unwrap()
        })
        .to_vec();
    let mean = values.iter().sum::<f64>() / 3.0;
    let sd = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    let half = 4.302_652_729_911_275 * sd / 3.0_f64.sqrt();
    let close = |found: &Value, value: f64| {
        assert!((found.as_f64().unwrap() - value).abs() < 1e-9, "{found} instead of {value}");
    };
    close(&first["search"]["mean"], mean);
    close(&first["search"]["low"], mean - half);
    close(&first["search"]["high"], mean + half);
    let means: Vec<f64> =
        found["best"].as_array().unwrap().iter().map(|row| row["search"]["mean"].as_f64().unwrap()).collect();
    assert!(means.is_sorted(), "{means:?}");
    // The other direction, and fewer rows.
    let worst = best(&sandbox, &["--direction", "max", "--top", "2"]);
    assert_eq!(worst["best"].as_array().unwrap().len(), 2);
    close(&worst["best"][0]["search"]["mean"], means[8]);
    assert_message!(sandbox.sweep(&["best", "recipe.yaml", "--backend", "cpu", "--top", "4"]).stdout);
}

#[test]
fn eighty_columns_have_room_for_many_axes() {
    let sandbox = Sandbox::with(
        "\
name: wide
steps:
  tune:
    uses: train
    matrix:
      lr: [0.0001, 0.001]
      dropout: [0, 0.1]
      weight_decay: [0.01, 0.1]
      warmup_iters: [10, 20]
      optimizer: [adamw, adamwspam]
      prune: [none, magnitude]
      activation: [gelu, gelu_new]
tables: { losses: { from: tune, rows: [lr], cells: [loss] } }
",
    );
    // Any function whose best values differ in all axes.
    let value = |values: &BTreeMap<&str, &str>| {
        let text: String = values.values().copied().collect();
        let sum = text.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 997;
        Some(json!({ "loss": { "value": 1.0 + 0.001 * f64::from(sum), "unit": "nats" } }))
    };
    measure(&sandbox, value);
    let ended = sandbox.sweep(&["best", "recipe.yaml", "--backend", "cpu"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let widest = ended.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{}", ended.stdout);
    assert_message!(ended.stdout);
}

#[test]
fn configurations_without_all_results_are_last() {
    let sandbox = Sandbox::with(STUDY);
    // The best one lacks a seed, and another one has none.
    measure(&sandbox, |values| match (values["lr"], values["dropout"], values["seed"]) {
        ("0.001", "0", "2") | ("0.01", "0.2", _) => None,
        _ => Some(loss(values)),
    });
    let found = best(&sandbox, &[]);
    let rows = found["best"].as_array().unwrap();
    assert_eq!(rows[0]["values"]["dropout"], json!(0.1));
    assert_eq!(
        (&rows[0]["search"]["mark"], &rows[7]["rank"]),
        (&Value::Null, &Value::Null),
        "an incomplete one may be better"
    );
    assert_eq!((&rows[7]["search"]["missing"], &rows[7]["search"]["why"]), (&json!(1), &json!(["not run"])));
    assert_eq!((&rows[8]["search"]["n"], &rows[8]["search"]["mean"]), (&json!(0), &Value::Null));
}

#[test]
fn what_is_ranked_must_be_clear() {
    let sandbox = Sandbox::with(
        "\
name: unclear
steps:
  first: { uses: command, matrix: { a: [1, 2] }, with: { run: 'echo level=${{ matrix.a }}' } }
  second: { uses: command, matrix: { b: [1, 2] }, with: { run: 'echo level=${{ matrix.b }}' } }
  third: { uses: command, with: { run: echo level=1 } }
",
    );
    let said = |args: &[&str]| {
        let ended = sandbox.sweep(&[&["best", "recipe.yaml"], args].concat());
        assert_ne!(ended.code, Some(0), "{}", ended.stdout);
        ended.stderr
    };
    let all = [
        said(&[]),
        said(&["--step", "frist"]),
        said(&["--step", "third"]),
        said(&["--step", "first"]),
        said(&["--step", "first", "--by", "level"]),
        said(&["--step", "first", "--by", "level", "--top", "0"]),
    ];
    assert_message!(all.join("\n"));
    let ended = sandbox.sweep(&["best", "recipe.yaml", "--step", "first", "--by", "level", "--direction", "max"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("not run"), "{}", ended.stdout);
}
