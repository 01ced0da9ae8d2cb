//! Units of reported metrics: each metric has one unit everywhere, and numbers about the metric are in this unit or
//! have a suffix.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// A program that says the same times, sizes and rates in several ways. Seeds differ a little.
const PROGRAM: &str = r#"
import json, os
seed = int(os.environ["SWEEP_SEED"])
print(f"step 3 {12.6 + seed / 100} ms")
print("print_ms=7.5")
print(f"loss={0.5 + seed / 100}")
with open(os.environ["SWEEP_REPORT"], "a") as report:
    report.write(json.dumps({"peak_mib": 1.5, "x_us": 250, "tokens_per_s": 11234, "latency": {"value": 3.25, "unit": "ms"}}) + "\n")
with open("log.csv", "w") as log:
    log.write("step,csv_ms\n1,4.5\n")
"#;

const STUDY: &str = r"
name: study
steps:
  train:
    uses: command
    seeds: 3
    with:
      argv: [python3, train.py]
      inputs: [train.py]
      reads: { stdout: 'step (?<step>\d+) (?<step_ms>[\d.]+) ms', csv: log.csv }
tables:
  times: { from: train, cells: [step_ms, print_ms, csv_ms, latency, peak_mib, x_us, tokens_per_s], conditions: any }
claims:
  fast: { value: { metric: step_ms, of: { step: train } }, expect: { less_than: 5 }, conditions: any }
  with-unit: { value: { metric: step_ms, of: { step: train } }, expect: { at_least: 10 ms, at_most: 0.02 s }, conditions: any }
  latency: { value: { metric: latency, of: { step: train } }, expect: { at_most: 4000 us }, conditions: any }
metrics:
  latency: { deterministic: true }
";

fn study(recipe: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("train.py", PROGRAM);
    sandbox
}

fn run(sandbox: &Sandbox) {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

fn claims(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap()
}

#[test]
fn a_metric_has_the_unit_of_its_author_everywhere() {
    let sandbox = study(STUDY);
    run(&sandbox);
    let records = sandbox.records();
    let metric = |name: &str| records["train/seed=0"]["outcome"]["metrics"][name].clone();
    for (name, value, unit) in [
        ("step_ms", 12.6, "ms"),
        ("print_ms", 7.5, "ms"),
        ("csv_ms", 4.5, "ms"),
        ("latency", 3.25, "ms"),
        ("peak_mib", 1.5, "MiB"),
        ("x_us", 250.0, "us"),
        ("tokens_per_s", 11234.0, "tokens/s"),
    ] {
        assert_eq!(metric(name), json!({ "value": value, "unit": unit }), "{name}");
    }
    let headings = [
        "step_ms (ms)",
        "print_ms (ms)",
        "csv_ms (ms)",
        "latency (ms)",
        "peak_mib (MiB)",
        "x_us (µs)",
        "tokens_per_s (tokens/s)",
    ];
    for (file, format) in [("md", "| step_ms (ms) |"), ("tex", "Step ms (ms) &")] {
        let text = sandbox.read(&format!("results/reports/study/tables/times.{file}"));
        assert!(text.contains(format) && text.contains("12.6") && !text.contains("0.0126"), "{file}: {text}");
    }
    let text = sandbox.read("results/reports/study/tables/times.md");
    for heading in headings {
        assert!(text.contains(heading), "{heading}: {text}");
    }
    for number in ["7.50", "4.50", "3.25", "1.50", "250", "11234"] {
        assert!(text.contains(number), "{number}: {text}");
    }
    let csv = sandbox.read("results/reports/study/tables/times.csv");
    assert!(
        csv.contains("step_ms,ms,12.6") && csv.contains("peak_mib,MiB,1.5,") && csv.contains("x_us,µs,250,"),
        "{csv}"
    );
    let page = sandbox.read("results/reports/study/index.html");
    assert!(page.contains("step_ms (ms)"), "the page has the unit");
}

#[test]
fn bounds_are_in_the_unit_of_the_metric_or_have_their_own() {
    let sandbox = study(STUDY);
    run(&sandbox);
    let claims = claims(&sandbox);
    let found = |index: usize| (claims[index]["state"].as_str().unwrap(), claims[index]["unit"].as_str().unwrap());
    assert_eq!(
        (found(0), found(1), found(2)),
        (("refuted", "ms"), ("supported", "ms"), ("supported", "ms")),
        "{claims:?}"
    );
    let because = claims[0]["because"].as_str().unwrap();
    assert!(because.starts_with("12.61 ms (95 % CI") && because.contains("expected less than 5 ms"), "{because}");
    let because = claims[1]["because"].as_str().unwrap();
    assert!(because.contains("expected from 10 to 20 ms"), "{because}");
    assert!(claims[2]["because"].as_str().unwrap().contains("3.25 ms, expected at most 4 ms"), "{claims:?}");
}

#[test]
fn commands_and_exports_show_the_same_number_and_unit() {
    let sandbox = study(STUDY);
    run(&sandbox);
    let shown = sandbox.sweep(&["show", "train/seed=0"]).stdout;
    for line in
        ["step_ms: 12.6 ms", "print_ms: 7.50 ms", "peak_mib: 1.50 MiB", "x_us: 250 µs", "tokens_per_s: 11234 tokens/s"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let table = sandbox.sweep(&["query", "recipe.yaml", "--select", "seed,step_ms,latency"]).stdout;
    assert!(table.contains("step_ms (ms)") && table.contains("latency (ms)") && table.contains("12.6"), "{table}");
    let csv = sandbox.sweep(&["query", "recipe.yaml", "--select", "seed,step_ms,latency", "--format", "csv"]).stdout;
    assert!(csv.starts_with("seed,step_ms,latency (ms)\n0,12.6,3.25\n"), "a name without a unit gets one: {csv}");
    let fast =
        sandbox.sweep(&["query", "recipe.yaml", "--where", "step_ms < 12.605", "--select", "seed", "--format", "csv"]);
    assert_eq!(fast.stdout, "seed\n0\n", "{}", fast.stderr);
    sandbox.sweep(&["export", "mlflow", "mlruns", "recipe.yaml"]);
    let runs = sandbox.path("mlruns");
    let file = |name: &str| {
        let mut found: Vec<String> = Vec::new();
        for experiment in crate::sandbox::list(&runs).iter().filter(|path| path.is_dir()) {
            for run in crate::sandbox::list(experiment).iter().filter(|path| path.is_dir()) {
                found.push(fs_err::read_to_string(run.join(name)).unwrap());
            }
        }
        found.sort();
        found.remove(0)
    };
    assert!(file("metrics/step_ms").contains(" 12.6 "), "{}", file("metrics/step_ms"));
    assert_eq!((file("tags/unit.step_ms"), file("tags/unit.latency")), ("ms".to_owned(), "ms".to_owned()));
}

/// Numbers of another kind of unit are in a column of their own.
#[test]
fn a_query_puts_no_numbers_of_two_kinds_of_units_into_one_column() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, matrix: { r: [5 ms, 2 s, 3 GiB] }, with: { run: 'echo \"r=$R\"', env: { R: '${{ matrix.r }}' } } } }\n",
    );
    run(&sandbox);
    let query = |format: &str| {
        sandbox.sweep(&["query", "recipe.yaml", "--select", "metrics.r", "--sort", "axes.r", "--format", format]).stdout
    };
    assert_eq!(query("csv"), "metrics.r (ms),r (GiB)\n2000,\n,3\n5,\n");
    let answer: Value = serde_json::from_str(&query("json")).unwrap();
    assert_eq!(answer["records"][1], serde_json::json!({ "metrics.r": null, "r (GiB)": 3.0 }));
    assert!(query("table").contains("r (GiB)"), "{}", query("table"));
}

#[test]
fn a_recipe_declares_the_unit_of_a_metric() {
    let recipe = "
name: study
steps:
  train: { uses: command, seeds: 2, with: { run: 'echo wait=$((SWEEP_SEED + 4)); echo step_ms=$((SWEEP_SEED + 1500))' } }
tables:
  times: { from: train, cells: [wait, step_ms], conditions: any }
claims:
  waits: { value: { metric: wait, of: { step: train } }, expect: { at_least: 1 s }, conditions: any }
metrics:
  wait: { unit: ms }
  step_ms: { unit: s }
";
    let sandbox = Sandbox::with(recipe);
    run(&sandbox);
    let table = sandbox.read("results/reports/study/tables/times.md");
    assert!(table.contains("wait (ms)") && table.contains("step_ms (s)") && table.contains("1.50"), "{table}");
    let because = claims(&sandbox)[0]["because"].as_str().unwrap().to_owned();
    assert!(because.contains("expected at least 1000 ms"), "{because}");
    // Without the declaration the unit of a bare number is unknown.
    sandbox.write("recipe.yaml", &recipe.replace("  wait: { unit: ms }\n", ""));
    run(&sandbox);
    let because = claims(&sandbox)[0]["because"].as_str().unwrap().to_owned();
    assert!(
        because.contains("`wait` is reported without a unit; declare it: `metrics: { wait: { unit: s } }`"),
        "{because}"
    );
}

#[test]
fn mistakes_in_units_have_their_place() {
    let mistake = |metric: &str, expect: &str, rules: &str| {
        let sandbox = Sandbox::with(&format!(
            "steps:\n  a: {{ uses: command, with: {{ run: echo step_ms=1 }} }}\nclaims:\n  c:\n    value: {{ metric: {metric}, of: {{ step: a }} }}\n    expect: {expect}\nmetrics: {rules}\n"
        ));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{metric} {expect} {rules}: {}", ended.stderr);
        ended.stderr
    };
    let found = mistake("step_ms", "{ less_than: 5 MiB }", "{}");
    assert!(found.contains("`step_ms` is measured in `ms`, but `MiB` is another kind of unit"), "{found}");
    let found = mistake("step_ms", "{ less_than: 5 furlongs }", "{}");
    assert!(found.contains("unknown unit `furlongs`") && found.contains("`ms`"), "{found}");
    let found = mistake("x", "{ at_least: 1, at_most: 5 ms }", "{}");
    assert!(found.contains("one number has a unit, and this one has none"), "{found}");
    let found = mistake("time.run", "{ at_most: 5 }", "{ time.run: { unit: MiB } }");
    assert!(found.contains("`time.run` is measured in `s`, but `MiB` is another kind of unit"), "{found}");
    let found = mistake("x", "{ at_most: 5 }", "{ x: { unit: furlong } }");
    assert!(found.contains("unknown unit `furlong`"), "{found}");
}

#[test]
fn a_record_of_an_earlier_version_means_the_same() {
    let sandbox = study(STUDY);
    run(&sandbox);
    // Earlier versions have stored base units, and without a unit the printed number.
    let key = sandbox.records()["train/seed=0"]["key"].as_str().unwrap().to_owned();
    let path = format!("results/store/{}/{key}/record.json", &key[..2]);
    let mut record: Value = serde_json::from_str(&sandbox.read(&path)).unwrap();
    record.as_object_mut().unwrap().remove("digest");
    record["format"] = json!(1);
    let metrics = &mut record["outcome"]["metrics"];
    metrics["step_ms"] = json!({ "value": 12.6 * 1e-3, "unit": "s" });
    metrics["print_ms"] = json!({ "value": 7.5, "unit": "1" });
    metrics["peak_mib"] = json!({ "value": 1_572_864.0, "unit": "B" });
    metrics["latency"] = json!({ "value": 3.25e-3, "unit": "s" });
    record["outcome"]["curves"]["step_ms"] = json!({ "unit": "s", "at": [3], "values": [12.6 * 1e-3] });
    sandbox.write(&path, &record.to_string());
    let shown = sandbox.sweep(&["show", "train/seed=0"]).stdout;
    for line in ["step_ms: 12.6 ms", "print_ms: 7.50 ms", "peak_mib: 1.50 MiB"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let csv = sandbox.sweep(&["query", "recipe.yaml", "--select", "seed,step_ms,latency", "--format", "csv"]).stdout;
    assert!(csv.starts_with("seed,step_ms,latency (ms)\n0,12.6,3.25\n"), "{csv}");
    let curves = sandbox.sweep(&["query", "recipe.yaml", "--curves=step_ms", "--limit", "1", "--format", "csv"]).stdout;
    assert!(curves.ends_with(",12.6\n"), "{curves}");
    run(&sandbox);
    let claims = claims(&sandbox);
    let states: Vec<&str> = claims.iter().map(|claim| claim["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["refuted", "supported", "supported"]);
}

#[test]
fn the_metrics_file_has_units_as_reports_do() {
    let sandbox = Sandbox::with(
        "
name: study
steps:
  a:
    uses: command
    with:
      argv: [python3, -c, 'open(\"m.json\", \"w\").write(\"\"\"{\"step_ms\": 12.6, \"run\": {\"wait\": {\"value\": 2, \"unit\": \"min\"}, \"size_kb\": {\"value\": 3, \"unit\": \"B\"}}, \"odd\": {\"value\": 1, \"unit\": \"furlong\"}}\"\"\")']
      metrics: m.json
",
    );
    run(&sandbox);
    let metrics = &sandbox.records()["a"]["outcome"]["metrics"];
    assert_eq!(metrics["step_ms"], json!({ "value": 12.6, "unit": "ms" }));
    assert_eq!(metrics["run.wait"], json!({ "value": 2.0, "unit": "min" }));
    assert_eq!(metrics["run.size_kb"], json!({ "value": 0.003, "unit": "kB" }));
    assert_eq!(metrics["odd"], json!({ "value": 1.0, "unit": "1" }));
    let note = sandbox.journal("note").iter().any(|note| note.to_string().contains("unknown unit `furlong`"));
    assert!(note, "{:?}", sandbox.journal("note"));
}
