//! `sweep plan --detect` and `--budget`: power and seeds from records.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{messages::Transcript, sandbox::Sandbox};

/// Methods with a fixed value for each seed. Step b repeats y with seeds that x does not have.
const STUDY: &str = "\
name: design
params: { most: 150, end: 250 }
steps:
  a:
    uses: command
    matrix: { zip: { method: [x, y, z], values: [X, Y, Z] } }
    seeds: '${{ params.most }}'
    with: { run: set -- $VALUES; shift $SWEEP_SEED; echo value=$1, env: { VALUES: '${{ matrix.values }}', METHOD: '${{ matrix.method }}' } }
    resources: { cpus: 1 }
  b:
    uses: command
    matrix: { seed: { range: [100, '${{ params.end }}', 1] } }
    with: { run: set -- Y; shift $((SWEEP_SEED - 100)); echo value=$1 }
    resources: { cpus: 1 }
tables:
  methods: { from: a, rows: method, cells: value, best: { value: min } }
  pairs: { from: a, compare: { axis: method, pairs: [[y, x], [z, x]] }, cells: [value] }
claims:
  far: { difference: { metric: value, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { at_least: 5 } }
  ratio: { ratio: { metric: value, of: { step: a, method: z }, to: { step: a, method: x } }, expect: { at_least: 1 } }
  mean: { value: { metric: value, of: { step: a, method: z } }, expect: { at_least: 1 } }
  unpaired: { difference: { metric: value, of: { step: b }, to: { step: a, method: x } }, expect: { at_least: 5 } }
";

fn vectors() -> Value {
    serde_json::from_str(include_str!("testdata/design.json")).unwrap()
}

/// The study with the values of the vectors.
fn study() -> String {
    let vectors = vectors();
    let values = |method: &str| {
        let values = vectors["values"][method].as_array().unwrap().iter();
        format!("'{}'", values.map(ToString::to_string).collect::<Vec<_>>().join(" "))
    };
    let text = STUDY.replace("[X, Y, Z]", &format!("[{}, {}, {}]", values("x"), values("y"), values("z")));
    text.replace("set -- Y;", &format!("set -- {};", values("y").trim_matches('\'')))
}

/// A sandbox in which the first four seeds have run as parts of a larger plan.
fn piloted() -> Sandbox {
    let sandbox = Sandbox::with(&study());
    let only: Vec<String> =
        (0..4).flat_map(|seed| [format!("a/seed={seed}"), format!("b/seed={}", 100 + seed)]).collect();
    let only = only.iter().flat_map(|part| ["--only", part.as_str()]);
    let args: Vec<&str> = ["run", "recipe.yaml"].into_iter().chain(only).collect();
    let ended = sandbox.sweep(&args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.records().len(), 16);
    sandbox
}

const TWELVE: [&str; 4] = ["--set", "most=12", "--set", "end=112"];

fn design(sandbox: &Sandbox, args: &[&str]) -> Value {
    let planned = sandbox.sweep(&[&["plan", "recipe.yaml", "--format", "json"], args].concat());
    assert_eq!(planned.code, Some(0), "{}", planned.stderr);
    let plan: Value = serde_json::from_str(&planned.stdout).unwrap();
    plan["design"].clone()
}

/// The decisions of a design, by kind, name and part.
fn decisions(design: &Value) -> BTreeMap<String, Value> {
    let decisions = design["decisions"].as_array().unwrap().iter();
    let name = |decision: &Value| {
        let text = |key: &str| decision[key].as_str().unwrap_or_default().to_owned();
        let name = if text("kind") == "claim" { text("name") } else { text("part") };
        let percent = if text("detect").ends_with('%') { " 2%" } else { "" };
        format!("{} {name}{percent}", text("kind")).trim().to_owned()
    };
    decisions.map(|decision| (name(decision), decision.clone())).collect()
}

#[test]
fn power_and_seeds_are_those_of_statsmodels() {
    let sandbox = piloted();
    let design = design(&sandbox, &[&TWELVE[..], &["--detect", "value=0.5", "--detect", "value=2%"]].concat());
    let decisions = decisions(&design);
    let vectors = vectors();
    let mut compared = 0;
    for (name, expected) in vectors["expected"].as_object().unwrap() {
        let name = if name == "unpaired" { "claim unpaired" } else { name };
        let ours = &decisions[name];
        assert_eq!(ours["seeds"], 12, "{name}");
        assert_eq!(ours["seeds_needed"], expected["seeds_needed"], "{name}: {ours}");
        for key in ["sd", "freedom", "difference", "level", "power"] {
            let (one, other) = (ours[key].as_f64().unwrap(), expected[key].as_f64().unwrap());
            assert!((one - other).abs() <= 1e-6 * other.abs(), "{name}, {key}: {one} {other}");
            compared += 1;
        }
        for end in 0..2 {
            let end = |value: &Value| value["sd_interval"][end].as_f64().unwrap();
            assert!((end(ours) - end(expected)).abs() <= 1e-6 * end(expected), "{name}: {ours}");
        }
    }
    assert_eq!((compared, decisions.len()), (45, 14));
    assert_eq!(decisions["comparison y − x"]["records"], 16);
    assert!(design["pilot"].is_null() && design["budget"].is_null(), "{design}");
}

/// A claim that was judged with fewer seeds is judged at a stricter level with more of them, and the design counts it.
#[test]
fn seeds_that_are_added_after_a_look_need_more_power() {
    let sandbox = Sandbox::with(&study());
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--set", "most=4", "--set", "end=104"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let raised = decisions(&design(&sandbox, &["--set", "most=4", "--set", "end=104", "--detect", "value=0.5"]));
    let far = &raised["claim far"];
    assert_eq!((&far["seeds"], &far["level"]), (&4.into(), &0.95.into()));
    assert!(far["seeds_needed"].as_u64() > Some(20), "15 without the look: {far}");
    assert!(far["level_needed"].as_f64() > Some(0.99), "{far}");
    // Marks are not corrected for looks.
    assert_eq!(raised["marks"]["seeds_needed"], 14);
}

#[test]
fn a_design_is_a_table() {
    let sandbox = piloted();
    let plan = |args: &[&str]| {
        let ended = sandbox.sweep(&[&["plan", "recipe.yaml"], &TWELVE[..], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let text = ended.stdout;
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
        text.split_once("\n\n").unwrap().1.to_owned()
    };
    assert_message!(plan(&["--detect", "value=0.5"]));
    // Without --detect nothing changes.
    let plain = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
    assert!(!plain.contains("detect"), "{plain}");
    let json = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout;
    assert!(!json.contains("\"design\":"), "{json}");
}

#[test]
fn a_step_without_records_gets_a_pilot() {
    let sandbox = Sandbox::with(&study());
    let empty = design(&sandbox, &["--detect", "value=0.5"]);
    let pilot = empty["pilot"].as_str().unwrap();
    let expected = "sweep run recipe.yaml --only a/seed=0 --only a/seed=1 --only a/seed=2 \
                    --only b/seed=100 --only b/seed=101 --only b/seed=102";
    assert_eq!(pilot, expected);
    assert!(empty["decisions"][0]["power"].is_null(), "{empty}");
    let args: Vec<&str> = pilot.split_whitespace().skip(1).collect();
    assert_eq!(sandbox.sweep(&args).code, Some(0));
    assert_eq!(sandbox.records().len(), 12);
    let after = design(&sandbox, &["--detect", "value=0.5"]);
    assert!(after["pilot"].is_null(), "{after}");
    assert!(after["decisions"].as_array().unwrap().iter().all(|decision| decision["power"].is_f64()), "{after}");

    // A step without seeds gets some.
    let recipe = "
name: single
steps: { a: { uses: mock, matrix: { value: [1, 2, 3] } } }
claims:
  two: { difference: { metric: value, of: { step: a, value: 2 }, to: { step: a, value: 1 } }, expect: { at_least: 0 } }
";
    let single = Sandbox::with(recipe);
    single.sweep(&["run", "recipe.yaml"]);
    let pilot = design(&single, &["--detect", "value=1"])["pilot"].as_str().unwrap().to_owned();
    assert!(pilot.starts_with("sweep run recipe.yaml --axis a.seed=0,1,2 --only a/value=1,seed=0"), "{pilot}");
    let args: Vec<&str> = pilot.split_whitespace().skip(1).collect();
    let ended = single.sweep(&args);
    assert_eq!(ended.code, Some(0), "{pilot}: {}", ended.stderr);
    // A step without seeds has the default one, so two of the pilot's six jobs are done.
    assert_eq!(single.records().len(), 3 + 4);
}

/// The power of adaptive seeds is that of all looks together, at their common level.
#[test]
fn adaptive_seeds_have_the_power_of_their_looks() {
    let adaptive = study().replace("seeds: '${{ params.most }}'", "seeds: { min: 2, max: 12, until: decided }");
    // Only the first claim: every further one is simulated, too.
    let (steps, rest) = adaptive.split_once("tables:").unwrap();
    let far = rest.lines().find(|line| line.starts_with("  far:")).unwrap();
    let adaptive = format!("{steps}claims:\n{far}\n");
    let sandbox = Sandbox::with(&adaptive);
    let only: Vec<String> = (0..4).map(|seed| format!("a/seed={seed}")).collect();
    let only = only.iter().flat_map(|part| ["--only", part.as_str()]);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"].into_iter().chain(only).collect::<Vec<_>>()).code, Some(0));
    let decisions = decisions(&design(&sandbox, &["--detect", "value=0.5"]));
    let far = &decisions["claim far"];
    assert_eq!((&far["seeds"], &far["least_seeds"]), (&12.into(), &2.into()));
    let (power, level) = (far["power"].as_f64().unwrap(), far["level"].as_f64().unwrap());
    assert!(0.95 < level && level < 1.0 - 0.05 / 11.0, "not Bonferroni's level: {far}");
    // Simulated with NumPy: the share of 200,000 samples with a mean of 0.5 / 0.62383 sd, of which an interval of this level
    // after 2 to 12 values excludes zero.
    assert!((level - 0.991_182).abs() < 1e-5 && (power - 0.4904).abs() < 0.015, "{far}");
    assert!(far["seeds_needed"].as_u64() > Some(15), "a single test needs 15: {far}");
}

#[test]
fn a_budget_chooses_the_seeds() {
    let sandbox = piloted();
    let detect = ["--detect", "value=0.5"];
    let choose =
        |budget: &str| design(&sandbox, &[&TWELVE[..], &detect, &["--budget", budget]].concat())["budget"].clone();
    let enough = choose("40h");
    assert_eq!((&enough["is_enough"], &enough["is_affordable"]), (&true.into(), &true.into()), "{enough}");
    let seeds = |choice: &Value| -> Vec<u64> {
        choice["steps"].as_array().unwrap().iter().map(|step| step["seeds"].as_u64().unwrap()).collect()
    };
    // The claim without pairs needs the most on both steps, 136 seeds, of which four are there.
    assert_eq!(seeds(&enough), [136, 136]);
    assert_eq!(enough["steps"][0]["jobs"], 3 * 132);
    assert!(enough["power"].as_f64() >= Some(0.8), "{enough}");
    let needed = enough["seconds_needed"].as_f64().unwrap();
    let half = choose(&format!("{}ms", (needed * 500.0).ceil()));
    assert_eq!((&half["is_enough"], &half["is_affordable"]), (&false.into(), &true.into()), "{half}");
    assert!(seeds(&half).iter().all(|seeds| (20..136).contains(seeds)), "{half}");
    let power = half["power"].as_f64().unwrap();
    assert!(power > 0.2 && power < 0.8, "{half}");
    assert!(half["seconds"].as_f64().unwrap() <= needed / 2.0 + 0.001, "{half}");

    let ended = sandbox.sweep(&[&["plan", "recipe.yaml"], &TWELVE[..], &detect, &["--budget", "40h"]].concat());
    let text = ended.stdout.split("\n\n").last().unwrap().to_owned();
    assert!(text.starts_with("40 h 0 min of total job time are enough for 80 %,"), "{text}");
    for row in [
        "   step  planned  seeds  jobs to run",
        "\n   a          12    136          396 ",
        "\n   b          12    136          132 ",
    ] {
        assert!(text.contains(row), "{text}");
    }
    // Without a duration there is no choice.
    let fresh = Sandbox::with(&study());
    let none = design(&fresh, &[&detect[..], &["--budget", "40h"]].concat());
    assert!(none["budget"].is_null() && none["no_budget"].as_str().unwrap().contains("pilot"), "{none}");
}

/// Values of another axis are the units: seeds make them more precise, but cannot replace them.
#[test]
fn units_are_those_of_the_verdict() {
    let recipe = "
name: levels
steps:
  a:
    uses: command
    matrix: { method: [0, 1], task: [0, 3, 7] }
    seeds: 3
    with: { run: 'echo value=$(( METHOD * TASK + METHOD * (SWEEP_SEED * SWEEP_SEED) % 3 + TASK ))', env: { METHOD: '${{ matrix.method }}', TASK: '${{ matrix.task }}' } }
    resources: { cpus: 1 }
claims:
  over: { difference: { metric: value, of: { step: a, method: 1 }, to: { step: a, method: 0 } }, expect: { at_least: 0 } }
";
    let sandbox = Sandbox::with(recipe);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let over = decisions(&design(&sandbox, &["--detect", "value=1"]))["claim over"].clone();
    assert_eq!((&over["basis"], &over["freedom"]), (&"levels".into(), &2.0.into()), "{over}");
    // Differences of 0, 3 and 7 and, by the seeds that all share, of 0, 1 and 1 more: `sqrt((37 + 1) / 3)`, the mean squares of both.
    assert!((over["sd"].as_f64().unwrap() - 3.559_026_084_010_437_5).abs() < 1e-9, "{over}");
    assert!(over["seeds_needed"].is_null(), "not a number of seeds decides it: {over}");
}

/// The pooled standard deviation of 1, 2, 4, 3, 6 and of 2.5, 1.5, 3, 5.5, 4.5 is that of samples that are not paired.
#[test]
fn claims_are_planned_by_their_own_rules() {
    let two = "difference: { metric: value, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { at_least: 0 }";
    let recipe = format!(
        "name: rules\nsteps:\n  a:\n    uses: command\n    matrix: {{ method: [x, y] }}\n    seeds: 5\n    with: {{ run: 'set -- \
         $VALUES; shift $SWEEP_SEED; echo value=$1', env: {{ VALUES: {{ x: 1 2 4 3 6, y: 2.5 1.5 3 5.5 4.5 }} }} }}\nclaims:\n  pairs: {{ {two} \
         }}\n  apart: {{ {two}, pair: false }}\n  typical: {{ {two}, statistic: median }}\ntables:\n  e: {{ from: a, effects: {{ factors: [method] }}, cells: [value] }}\n"
    )
    .replace("VALUES: { x: 1 2 4 3 6, y: 2.5 1.5 3 5.5 4.5 }", "X: 1 2 4 3 6, Y: 2.5 1.5 3 5.5 4.5, M: '${{ matrix.method }}'")
    .replace("set -- $VALUES", "test $M = x && set -- $X || set -- $Y");
    let sandbox = Sandbox::with(&recipe);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let planned = decisions(&design(&sandbox, &["--detect", "value=1"]));
    let sd = |claim: &str| planned[claim]["sd"].as_f64();
    assert!(sd("claim pairs").is_some_and(|sd| (sd - 1.717_556_403_731_766_8).abs() < 1e-9), "{planned:?}");
    assert!(sd("claim apart").is_some_and(|sd| (sd - 1.767_766_952_966_368_9).abs() < 1e-9), "{planned:?}");
    let effects = planned["comparison"]["reason"].as_str();
    assert!(effects.is_some_and(|why| why.contains("that of the whole design")), "{planned:?}");
    let typical = &planned["claim typical"];
    assert!(
        typical["sd"].is_null()
            && typical["reason"].as_str().is_some_and(|why| why.contains("another `statistic` than the mean")),
        "{typical}"
    );
}

#[test]
fn bad_differences_are_refused() {
    let sandbox = piloted();
    let mut said = Transcript::default();
    for args in [
        &["--detect", "valeu=0.5"][..],
        &["--detect", "value"],
        &["--detect", "=0.5"],
        &["--detect", "value="],
        &["--detect", "value=much"],
        &["--detect", "value=0"],
        &["--detect", "value=-1"],
        &["--detect", "value=-1%"],
        &["--detect", "value=NaN"],
        &["--detect", "value=inf"],
        &["--detect", "value=1e999"],
        &["--detect", "value=0.5", "--budget", "40"],
        &["--detect", "value=0.5", "--budget", "0s"],
        &["--detect", "value=0.5", "--format", "dot"],
    ] {
        let ended = sandbox.sweep(&[&["plan", "recipe.yaml"], args].concat());
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stdout);
        assert!(ended.stdout.is_empty(), "{args:?}: {}", ended.stdout);
        said.add(&args.join(" "), &ended.stderr);
    }
    assert_message!(said);
    assert_eq!(sandbox.sweep(&["plan", "recipe.yaml", "--budget", "40h"]).code, Some(2));
}
