//! Scales: named settings of a recipe, and claims that can only be judged from a certain size.

use serde_json::Value;

use crate::{
    composition::{jobs, labels, refusal},
    sandbox::Sandbox,
};

const STUDY: &str = "\
name: study
params: { v: 1, w: 5 }
scales:
  large: { about: Ten times as much., set: { v: 10 }, axes: { a.seed: [0, 1, 2] } }
  huge: { set: { v: 100 } }
steps:
  a: { uses: mock, seeds: 2, with: { value: '${{ params.v }}' } }
  b: { uses: mock, with: { value: '${{ params.w }}' } }
tables:
  t: { from: a, cells: [value] }
claims:
  large-only:
    value: { metric: value, of: { step: a } }
    expect: { at_least: 10 }
    scale: { value: 10 }
  b-is-five: { invariant: true, value: { metric: value, of: { step: b } }, expect: { at_least: 5, at_most: 5 } }
metrics: { value: { deterministic: true } }
";

fn verdicts(sandbox: &Sandbox, report: &str) -> Vec<Value> {
    serde_json::from_str(&sandbox.read(&format!("results/reports/{report}/claims.json"))).unwrap()
}

fn exists(sandbox: &Sandbox, path: &str) -> bool {
    sandbox.path(path).exists()
}

fn of<'v>(verdicts: &'v [Value], claim: &str) -> &'v Value {
    verdicts.iter().find(|verdict| verdict["claim"] == claim).unwrap()
}

#[test]
fn a_scale_and_the_same_flags_give_the_same_keys() {
    let sandbox = Sandbox::with(STUDY);
    let plain = jobs(&sandbox, &["recipe.yaml"]);
    assert_eq!(jobs(&sandbox, &["recipe.yaml", "--scale", "quick"]), plain);
    let flags = ["--set", "v=10", "--axis", "a.seed=0,1,2"];
    let large = jobs(&sandbox, &["recipe.yaml", "--scale", "large"]);
    assert_eq!(large, jobs(&sandbox, &[&["recipe.yaml"], &flags[..]].concat()));
    assert_eq!((plain.len(), large.len()), (3, 4));
    // Flags take precedence over the scale, and the rest of the scale stays.
    let typed = jobs(&sandbox, &["recipe.yaml", "--scale", "large", "--set", "v=1", "--axis", "seed=0,1"]);
    assert_eq!(typed, plain);
    let typed = jobs(&sandbox, &["recipe.yaml", "--scale", "large", "--set", "v=1"]);
    assert_eq!(typed.len(), 4);
    // A sweep file: the scale, then its own changes, then flags. The flag replaces the file's scale.
    sandbox.write("big.yaml", "recipe: recipe.yaml\nscale: large\nset: { w: 7 }\n");
    let file = jobs(&sandbox, &["big.yaml"]);
    assert_eq!(file, jobs(&sandbox, &["recipe.yaml", "--scale", "large", "--set", "w=7"]));
    assert_eq!(jobs(&sandbox, &["big.yaml", "--scale", "quick", "--set", "w=5"]), plain);
    sandbox.write("bigger.yaml", "recipe: recipe.yaml\nscale: large\naxes: { seed: [0, 1] }\nset: { v: 1 }\n");
    assert_eq!(jobs(&sandbox, &["bigger.yaml"]), plain);
}

#[test]
fn the_report_of_a_scale_has_its_own_folder() {
    let sandbox = Sandbox::with(STUDY);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let plain = sandbox.read("results/reports/study/claims.json");
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--scale", "large", "--set", "w=5"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    // `b` is the same job at both scales.
    assert!(ended.stderr.contains("1 cached"), "{}", ended.stderr);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--scale", "large"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.read("results/reports/study/claims.json"), plain, "the plain report is not replaced");
    let [small, large] = [verdicts(&sandbox, "study"), verdicts(&sandbox, "study-large")];
    let small = of(&small, "large-only");
    assert_eq!((&small["state"], &small["lacks"]), (&"undecided".into(), &"scale".into()));
    assert_eq!(small["because"], "it is about value of 10 and more; this was measured at 1");
    let large = of(&large, "large-only");
    assert_eq!((&large["state"], &large["scale"]), (&"supported".into(), &"large".into()));
    let page = sandbox.read("results/reports/study-large/index.html");
    assert!(page.contains("At the scale `large`: Ten times as much."), "{page}");
    let table = sandbox.read("results/reports/study-large/tables/t.md");
    assert!(table.starts_with("> At the scale"), "{table}");
    // A request for a part at a scale has neither the plain report nor that of the scale.
    let whole = sandbox.read("results/reports/study-large/claims.json");
    sandbox.sweep(&["run", "recipe.yaml", "--scale", "large", "--only", "b"]);
    assert_eq!(sandbox.read("results/reports/study-large/claims.json"), whole);
    // The commands of the other kind know the scale, too.
    let scale = ["--scale", "large"];
    for (command, says) in [
        (&["report", "recipe.yaml"][..], "✓ large-only: supported"),
        (&["explain", "recipe.yaml", "a/seed=2"], "cached"),
        (&["query", "recipe.yaml", "--select", "value"], "10"),
        (&["plan", "recipe.yaml"], "4 cached"),
    ] {
        let args = [command, &scale].concat();
        let ended = sandbox.sweep(&args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
        assert!(ended.stdout.contains(says), "{args:?}: {}", ended.stdout);
    }
    // Nothing of a scale that never ran is there.
    let never = sandbox.sweep(&["report", "recipe.yaml", "--scale", "huge"]);
    assert_eq!(never.code, Some(0), "{}", never.stderr);
    assert!(never.stdout.contains("2 jobs without a result"), "{}", never.stdout);
}

#[test]
fn several_recipes_of_which_some_have_the_scale() {
    let sandbox = Sandbox::new();
    sandbox.write("study.yaml", STUDY);
    sandbox.write("plain.yaml", "steps: { p: { uses: mock } }\n");
    sandbox.write("all.yaml", "recipes: [study.yaml, plain.yaml]\n");
    let ended = sandbox.sweep(&["run", "all.yaml", "--scale", "large"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("plain has no scale `large`, and runs at its plain values"), "{}", ended.stderr);
    assert!(exists(&sandbox, "results/reports/all-large/study/claims.json"));
    let names = labels(&sandbox, &["all.yaml", "--scale", "large"]);
    assert!(names.contains(&"study-large:a/seed=2".to_owned()) && names.contains(&"plain:p".to_owned()), "{names:?}");
    // The whole of it can be asked for by these names.
    assert_eq!(labels(&sandbox, &["all.yaml", "--scale", "large", "--only", "study-large:b"]), ["study-large:b"]);
    sandbox.write("file.yaml", "recipes: [study.yaml, plain.yaml]\nscale: large\n");
    assert_eq!(sandbox.sweep(&["run", "file.yaml"]).code, Some(0));
    assert!(exists(&sandbox, "results/reports/file/study/claims.json"), "a sweep file has a name of its own");
    assert_eq!(sandbox.sweep(&["run", "file.yaml", "--scale", "large"]).code, Some(0));
    assert!(!exists(&sandbox, "results/reports/file-large"), "it is the file's own scale");
}

#[test]
fn mistakes_in_scales() {
    let sandbox = Sandbox::with(STUDY);
    assert!(refusal(&sandbox, &["recipe.yaml", "--scale", "larg"]).contains("did you mean `large`?"));
    sandbox.write("other.yaml", "steps: { p: { uses: mock } }\n");
    let none = refusal(&sandbox, &["recipe.yaml", "other.yaml", "--scale", "no"]);
    assert!(none.contains("none of the recipes has a scale `no`"), "{none}");
    // A scale that is not chosen is checked, too.
    sandbox.write("recipe.yaml", &STUDY.replace("set: { v: 100 }", "set: { x: 100 }"));
    let unknown = refusal(&sandbox, &["recipe.yaml"]);
    assert!(unknown.contains("unknown param `x`") && unknown.contains("recipe.yaml:5:18"), "{unknown}");
    assert_eq!(unknown, refusal(&sandbox, &["recipe.yaml", "--scale", "huge"]));
    sandbox.write("recipe.yaml", &STUDY.replace("a.seed: [0, 1, 2]", "c.seed: [0]"));
    assert!(refusal(&sandbox, &["recipe.yaml"]).contains("unknown step `c`"));
    sandbox.write("recipe.yaml", &STUDY.replace("  huge:", "  quick:"));
    assert!(refusal(&sandbox, &["recipe.yaml"]).contains("`quick` is the scale of the recipe's plain values"));
    sandbox.write("recipe.yaml", &STUDY.replace("scale: { value: 10 }", "scale: { valeu: 10 }"));
    let missing = refusal(&sandbox, &["recipe.yaml"]);
    assert!(missing.contains("has no parameter, axis or metric `valeu`") && missing.contains("`value`"), "{missing}");
    sandbox.write("recipe.yaml", &STUDY.replace("scale: { value: 10 }", "scale: { value: ten }"));
    assert!(refusal(&sandbox, &["recipe.yaml"]).contains("is a number"));
}

#[test]
fn a_scale_can_switch_a_step_off() {
    let study = STUDY
        .replace("params: { v: 1, w: 5 }", "params: { v: 1, w: 5, both: true }")
        .replace("huge: { set: { v: 100 } }", "huge: { set: { v: 100, both: false } }")
        .replace("b: { uses: mock,", "b: { if: params.both, uses: mock,")
        .replace("tables:\n", "tables:\n  of-b: { from: b, cells: [value] }\n");
    let sandbox = Sandbox::with(&study);
    assert_eq!(labels(&sandbox, &["recipe.yaml"]).len(), 3);
    assert_eq!(labels(&sandbox, &["recipe.yaml", "--scale", "huge"]), ["a/seed=0", "a/seed=1"]);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--scale", "huge", "--strict"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let verdicts = verdicts(&sandbox, "study-huge");
    let (off, on) = (of(&verdicts, "b-is-five"), of(&verdicts, "large-only"));
    assert_eq!((&off["state"], &off["because"]), (&"undecided".into(), &"no point has these values".into()));
    assert_eq!(on["state"], "supported");
    // A step that needs the empty step waits for no job.
    sandbox.write("recipe.yaml", &study.replace("steps:\n", "steps:\n  c: { needs: b, uses: mock }\n"));
    assert_eq!(labels(&sandbox, &["recipe.yaml", "--scale", "huge"]).len(), 3);
}

#[test]
fn a_recipe_inherits_scales() {
    let sandbox = Sandbox::with(STUDY);
    sandbox
        .write("child.yaml", "extends: recipe.yaml\nname: child\nscales: { huge: null, large: { set: { v: 20 } } }\n");
    let large = labels(&sandbox, &["child.yaml", "--scale", "large"]);
    assert_eq!(large.len(), 3, "the entry replaces that of the base: {large:?}");
    assert!(refusal(&sandbox, &["child.yaml", "--scale", "huge"]).contains("recipe `child` has no scale `huge`"));
}

#[test]
fn a_bundle_of_a_scale_verifies() {
    let sandbox = Sandbox::with(STUDY);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--scale", "large"]).code, Some(0));
    let made = sandbox.sweep(&["bundle", "create", "recipe.yaml", "--scale", "large"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert!(exists(&sandbox, "study-large.sweep.tar"));
    let verified = sandbox.sweep(&["bundle", "verify", "study-large.sweep.tar", "--rerun", "2"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    assert!(verified.stdout.contains("the bundle agrees with itself"), "{}", verified.stdout);
}

#[test]
fn a_saved_plan_keeps_its_scale() {
    let sandbox = Sandbox::with(STUDY);
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--scale", "large", "--format", "json"]).stdout;
    sandbox.write("plan.json", &plan);
    let ended = sandbox.sweep(&["run", "--plan", "plan.json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(exists(&sandbox, "results/reports/study-large/claims.json"));
    let status = sandbox.sweep(&["status"]);
    assert!(status.stdout.contains("study-large"), "{}", status.stdout);
}

#[test]
fn a_broken_invariant_fails_strict() {
    let sandbox = Sandbox::with(STUDY);
    let whole = sandbox.sweep(&["run", "recipe.yaml", "--strict"]);
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    assert!(whole.stdout.contains("✓ b-is-five (invariant): holds"), "{}", whole.stdout);
    let broken = sandbox.sweep(&["run", "recipe.yaml", "--strict", "--set", "w=6"]);
    assert_eq!(broken.code, Some(6), "{}", broken.stderr);
    assert!(broken.stdout.contains("✗ b-is-five (invariant): broken"), "{}", broken.stdout);
    let setup = sandbox.read("results/reports/study/setup.md");
    assert!(setup.contains("1 claim: 1 undecided; 1 invariant: 1 holding."), "{setup}");
}

/// Two claims; the invariants beside them are undecided, so that they would count in the correction.
const FAMILY: &str = "\
name: study
steps:
  a:
    uses: command
    matrix:
      zip: { method: [x, y, z], values: ['1.0 1.1 1.2 1.3', '1.2 1.2 1.5 1.5', '2.0 2.3 2.3 2.7'] }
    seeds: 4
    with:
      run: set -- $VALUES; shift $SWEEP_SEED; echo value=$1
      env: { VALUES: '${{ matrix.values }}', METHOD: '${{ matrix.method }}' }
claims:
  family: holm
  y-is-more: { difference: { metric: value, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { more_than: 0 } }
  z-is-more: { difference: { metric: value, of: { step: a, method: z }, to: { step: a, method: y } }, expect: { more_than: 0 } }
";

#[test]
fn holm_without_invariants_is_holm_over_the_others() {
    let invariant = "  always-N: { invariant: true, value: { metric: value, of: { step: a, method: z } }, expect: { at_least: 2.3 } }\n";
    let p = |recipe: &str| {
        let sandbox = Sandbox::with(recipe);
        assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
        let verdicts = verdicts(&sandbox, "study");
        let own = ["y-is-more", "z-is-more"].map(|claim| of(&verdicts, claim).clone());
        own.map(|verdict| (verdict["state"].clone(), verdict["p"].as_f64().unwrap(), verdict["because"].clone()))
    };
    let invariants: String = (0..8).map(|number| invariant.replace('N', &number.to_string())).collect();
    // The order of claims means nothing.
    let before = FAMILY.replace("  family: holm\n", &format!("  family: holm\n{invariants}"));
    let alone = p(FAMILY);
    assert_eq!(p(&format!("{FAMILY}{invariants}")), alone);
    assert_eq!(p(&before), alone);
    let counted = p(&format!("{FAMILY}{}", invariants.replace("invariant: true, ", "")));
    assert!(counted[0].1 > alone[0].1 * 3.0, "the same claims as claims count: {counted:?} {alone:?}");
}

#[test]
fn an_undecided_claim_says_how_many_seeds_it_takes() {
    let sandbox =
        Sandbox::with(&FAMILY.replace("  family: holm\n", "").replace("'1.2 1.2 1.5 1.5'", "'1.0 1.2 1.1 1.6'"));
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let verdicts = verdicts(&sandbox, "study");
    let verdict = of(&verdicts, "y-is-more");
    // Differences 0, 0.1, -0.1 and 0.3: the mean is 0.44 standard deviations. SciPy's noncentral t gives 43 pairs at 95 %, and 81 at
    // 99.73 %, the level of seeds that are added after a look at four.
    assert_eq!((&verdict["state"], &verdict["lacks"]), (&"undecided".into(), &"samples".into()));
    let because = verdict["because"].as_str().unwrap();
    assert!(because.contains("about 81 seeds would decide it"), "{because}");
}

#[test]
fn a_scale_does_not_hide_behind_hardware() {
    let study = STUDY.replace("    scale: { value: 10 }", "    scale: { value: 10 }\n    hardware: cuda");
    let sandbox = Sandbox::with(&study);
    sandbox.sweep(&["run", "recipe.yaml"]);
    let verdicts = verdicts(&sandbox, "study");
    // A mock job has no device, so that only the size is known to be wrong.
    assert_eq!(of(&verdicts, "large-only")["lacks"], "scale");
}

/// The sizes that a named network implies, and the last part of a path.
#[test]
fn the_scale_of_a_claim_about_a_network() {
    let sandbox = Sandbox::with(
        "name: study
params: { model: gpt2-nano, data: kjv, n_layer: 3 }
steps:
  a:
    uses: train
    matrix: { prune: [none, magnitude] }
    with: { model: '${{ params.model }}', data: '${{ params.data }}', n_layer: '${{ params.n_layer }}' }
claims:
  large:
    order: { metric: loss, step: a, axis: prune, ascending: [none, magnitude] }
    scale: { d_model: 768, n_layer: 12, data: web }
",
    );
    sandbox.write("corpora/web", "some text that is long enough to be read\n");
    let because = |flags: &[&str]| {
        let ended = sandbox.sweep(&[&["report", "recipe.yaml", "--backend", "cpu"], flags].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let mut claim = ended.stdout.lines().skip_while(|line| !line.starts_with("? large"));
        claim.nth(1).unwrap().trim().to_owned()
    };
    assert_eq!(
        because(&[]),
        "it is about d_model of 768 and more and n_layer of 12 and more and data web; this was measured at 96 and 3 and kjv"
    );
    let large = ["--set", "model=gpt2", "--set", "n_layer=12"];
    assert_eq!(because(&large), "it is about data web; this was measured at kjv");
    let path = sandbox.path("corpora/web");
    let data = format!("data={}", path.display());
    assert_eq!(because(&[&large[..], &["--set", &data]].concat()), "2 jobs without a result");
    // One of the jobs is too small.
    let axes = [&large[..], &["--set", &data, "--axis", "a.n_layer=12,6"]].concat();
    assert_eq!(because(&axes), "it is about n_layer of 12 and more; this was measured at 6");
}
