//! The independent units of verdicts: data sets, folds, crossed seeds, pairs, and seeds that were chosen; and the other
//! statistics of claims.

use std::fmt::Write as _;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A program that prints a number from its flags, the same for the same flags.
const PROGRAM: &str = "\
import os, random, sys
given = dict(pair.split('=') for pair in sys.argv[1:])
seed = os.environ['SWEEP_SEED']
def noise(*names):
    return random.Random('|'.join(names)).gauss(0, 1)
method, kind = given['method'], given['kind']
own = noise(*[f'{name}={value}' for name, value in sorted(given.items())], seed)
value = 10 + own
if kind == 'sets':
    value += 3 * noise('set', given['dataset'], method)
elif kind == 'near':
    value = 1 + (0.01 if method == 'y' else 0) + 1e-9 * own
elif kind == 'one':
    value += 300 if (method, seed) == ('y', '3') else 0
print(f'value={value!r}')
";

fn sandbox(steps: &str, rest: &str) -> Sandbox {
    let mut text = "name: study\nsteps:\n".to_owned();
    for step in steps.lines().filter(|line| !line.is_empty()) {
        let (name, keys) = step.split_once(": ").unwrap();
        let kind = name.trim();
        let axes = ["dataset", "fold", "data_seed"].into_iter().filter(|axis| keys.contains(&format!("{axis}: [")));
        let flags: Vec<String> = axes.map(|axis| format!(", '{axis}=${{{{ matrix.{axis} }}}}'")).collect();
        let flags = flags.concat();
        let _ = writeln!(
            text,
            "  {kind}: {{ uses: command, {keys}, with: {{ argv: [python3, program.py, kind={kind}, 'method=${{{{ matrix.method }}}}'{flags}], inputs: [program.py] }} }}"
        );
    }
    let sandbox = Sandbox::with(&(text + "metrics: { value: { better: min } }\n" + rest));
    sandbox.write("program.py", PROGRAM);
    sandbox
}

fn difference(step: &str, more: &str) -> String {
    format!(
        "difference: {{ metric: value, of: {{ step: {step}, method: y }}, to: {{ step: {step}, method: x }} }}, expect: {{ less_than: 0 }}{more}"
    )
}

fn report(sandbox: &Sandbox) -> (String, Vec<Value>) {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    (ended.stdout, serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap())
}

fn because(claim: &Value) -> &str {
    claim["because"].as_str().unwrap()
}

/// Half the width of a verdict's interval.
fn half(claim: &Value) -> f64 {
    let end = |index: usize| claim["interval"][index].as_f64().unwrap();
    (end(1) - end(0)) / 2.0
}

#[test]
fn verdicts_name_their_unit_and_have_its_error() {
    let sandbox = sandbox(
        "sets: matrix: { method: [x, y], dataset: [a, b, c, d], fold: [0, 1, 2] }\n\
         cross: matrix: { method: [x, y], data_seed: [0, 1, 2] }, seeds: 3\n\
         folds: matrix: { method: [x, y], fold: [0, 1, 2, 3, 4] }\n\
         plain: matrix: { method: [x, y], fold: [0, 1, 2, 3, 4] }, replicates: { fold: condition }\n",
        &format!(
            "tables: {{ sets: {{ from: sets, rows: [method], cells: [value] }} }}\nclaims:\n  sets: {{ {} }}\n  cross: {{ {} }}\n  folds: {{ {} }}\n  plain: {{ {} }}\n",
            difference("sets", ""),
            difference("cross", ""),
            difference("folds", ""),
            difference("plain", "")
        ),
    );
    let (said, claims) = report(&sandbox);
    let [sets, cross, folds, plain] = claims.as_slice() else { panic!("{claims:?}") };
    assert!(because(sets).contains("; 4 datasets, 3 folds each"), "{sets}");
    assert!(because(sets).contains("the names of axes imply `replicates: { dataset: dataset, fold: fold }`"), "{sets}");
    assert!(because(cross).contains("; 3 × 3 crossed values of `data_seed` and `seed`"), "{cross}");
    assert!(because(folds).contains("; 5 folds") && because(folds).contains("Nadeau and Bengio"), "{folds}");
    assert!(because(plain).contains("; 5 mean differences") && !because(plain).contains("Nadeau"), "{plain}");
    let values = |step: &str, method: &str| -> Vec<f64> {
        let records = sandbox.records();
        let value = |fold: usize| {
            records[&format!("{step}/method={method},fold={fold}")]["outcome"]["metrics"]["value"]["value"].as_f64()
        };
        (0..5).map(|fold| value(fold).unwrap()).collect()
    };
    let spread = |step: &str| {
        let (of, to) = (values(step, "y"), values(step, "x"));
        let differences: Vec<f64> = of.iter().zip(&to).map(|(of, to)| of - to).collect();
        let mean = differences.iter().sum::<f64>() / 5.0;
        (differences.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 4.0).sqrt()
    };
    // Student's t with 4 degrees of freedom.
    let expected = |step: &str, variance: f64| 2.776_445_105_197_8 * spread(step) * variance.sqrt();
    assert!((half(folds) - expected("folds", 1.0 / 5.0 + 1.0 / 4.0)).abs() < 1e-9, "{folds}");
    assert!((half(plain) - expected("plain", 1.0 / 5.0)).abs() < 1e-9, "{plain}");
    assert!(said.contains("over dataset, fold averaged within each (n = 4)"), "{said}");
    assert!(said.contains("rows compared in 4 blocks (equal values of `dataset`)"), "{said}");
}

#[test]
fn values_that_differ_by_rounding_and_chosen_seeds_are_no_samples() {
    let chosen = difference("cross", "").replace("method: ", "seed: [0, 1, 2], method: ");
    let sandbox = sandbox(
        "near: matrix: { method: [x, y] }, seeds: 5\ncross: matrix: { method: [x, y] }, seeds: 6\n",
        &format!(
            "tables: {{ near: {{ from: near, rows: [method], cells: [value] }} }}\nclaims:\n  near: {{ {} }}\n  chosen: {{ {chosen} }}\n",
            difference("near", "")
        ),
    );
    let (said, claims) = report(&sandbox);
    assert_eq!(claims[0]["state"], "undecided", "{}", claims[0]);
    assert!(
        because(&claims[0]).contains("the seed has no effect beyond rounding: the values of 10 jobs"),
        "{}",
        claims[0]
    );
    assert!(!said.contains('◀') && !said.contains('≈'), "{said}");
    let text = because(&claims[1]);
    assert!(text.contains("; 3 pairs"), "equal seeds are pairs: {text}");
    assert!(text.contains("chosen seeds: they were measured with 6 seeds, of which the recipe names 3"), "{text}");
    assert!(
        text.contains("the claim selects seeds: over all measured seeds it is ") && text.contains("; 6 pairs"),
        "{text}"
    );
}

/// A store with ten seeds, and a recipe that names three of them. Records of another program are no seeds of it.
#[test]
fn seeds_of_the_store_that_the_recipe_does_not_name_are_beside_the_verdict() {
    let sandbox = sandbox(
        "plain: matrix: { method: [x, y] }, seeds: 10\n",
        &format!("claims:\n  less: {{ {} }}\n  after: {{ {} }}\n", difference("plain", ""), difference("after", "")),
    );
    let text = sandbox.read("recipe.yaml");
    let after = "  after: { uses: command, needs: [plain], matrix: { method: [x, y] }, seeds: 10, with: { argv: [python3, program.py, kind=after, 'method=${{ matrix.method }}', 'from=${{ needs.plain.metrics.value }}'], inputs: [program.py] } }\nmetrics:";
    sandbox.write("recipe.yaml", &text.replace("metrics:", after));
    let named = |text: &str| text.replace("kind=plain,", "kind=plain, 'at=${{ matrix.seed }}',");
    let whole = named(&sandbox.read("recipe.yaml"));
    sandbox.write("recipe.yaml", &whole);
    let (_, all) = report(&sandbox);
    assert!(!because(&all[0]).contains("the store has"), "{}", all[0]);
    let few = whole.replace("matrix: { method: [x, y] }, seeds: 10", "matrix: { seed: [4, 6, 7], method: [x, y] }");
    sandbox.write("recipe.yaml", &few);
    let (_, chosen) = report(&sandbox);
    let text = because(&chosen[0]);
    assert!(text.contains("; 3 pairs"), "{text}");
    let remark = format!(
        "; the store has 10 seeds of these configurations, but this claim uses 3 of them: over all seeds it is {} (",
        all[0]["state"].as_str().unwrap()
    );
    assert!(text.contains(&remark) && text.contains("; 10 pairs"), "{text}");
    let choice = chosen[0]["choices"].as_array().unwrap().last().unwrap();
    assert_eq!(choice["choice"], "all 10 seeds that were measured");
    assert_eq!((&choice["state"], &choice["value"]), (&all[0]["state"], &all[0]["value"]));
    let remark = "; the store has 10 seeds of these configurations, but this claim uses 3 of them";
    assert!(because(&chosen[1]).contains(remark), "a step that takes values of another one: {}", chosen[1]);
    sandbox.write("program.py", &PROGRAM.replace("value = 10", "value = 11"));
    let (_, other) = report(&sandbox);
    assert!(!because(&other[0]).contains("the store has"), "seeds of another program: {}", other[0]);
}

/// Seeds of the store have the sizes of the jobs from which they differ in the seed only.
#[test]
fn a_claim_with_a_scale_is_judged_over_the_seeds_of_the_store() {
    let recipe = "\
name: study
steps:
  a: { uses: mock, with: { value: '${{ matrix.seed }}', steps: 2 }, matrix: { seed: SEEDS } }
claims:
  low: { value: { metric: value, of: { step: a } }, expect: { at_most: 100 }, scale: { steps: 2 } }
";
    let sandbox = Sandbox::with(&recipe.replace("SEEDS", "[1, 2, 3, 4, 5, 6]"));
    let (_, all) = report(&sandbox);
    sandbox.write("recipe.yaml", &recipe.replace("SEEDS", "[1, 4, 6]"));
    let (_, some) = report(&sandbox);
    assert_eq!(all[0]["state"], "supported", "{}", all[0]);
    assert!(because(&some[0]).contains("over all seeds it is supported"), "{}", some[0]);
}

#[test]
fn claims_can_be_about_a_typical_seed_and_about_independent_samples() {
    let mean = difference("one", "");
    let sandbox = sandbox(
        "one: matrix: { method: [x, y] }, seeds: 8\n",
        &format!(
            "claims:\n  mean: {{ {mean} }}\n  median: {{ {mean}, statistic: median }}\n  iqm: {{ {mean}, statistic: iqm }}\n  apart: {{ {mean}, pair: false, statistic: iqm }}\n  few: {{ {}, statistic: median }}\n",
            mean.replace("method: ", "seed: [0, 1, 2, 4], method: ")
        ),
    );
    let (_, claims) = report(&sandbox);
    let [mean, median, iqm, apart, few] = claims.as_slice() else { panic!("{claims:?}") };
    assert!(because(mean).contains("one of 8 values dominates their mean (Dixon's Q)"), "{mean}");
    assert!(mean["value"].as_f64() > Some(30.0) && half(mean) > 50.0, "{mean}");
    for (claim, basis) in [
        (median, "; median of 8 pairs"),
        (iqm, "; interquartile mean of 8 pairs"),
        (apart, "; interquartile mean of 8 against 8, not paired"),
    ] {
        assert!(because(claim).contains(basis) && !because(claim).contains("Dixon"), "{claim}");
        assert!(claim["value"].as_f64().unwrap().abs() < 3.0, "{claim}");
    }
    assert!(half(iqm) < 5.0 && half(apart) < 5.0, "{iqm} {apart}");
    assert!(because(few).contains("at 95 %, a median needs 6, and several looks need more"), "{few}");
}

#[test]
fn mistakes_in_replicates_and_statistics_have_their_place() {
    let recipe = "\
name: study
steps:
  a: { uses: mock, matrix: { value: [1, 2], split: [0, 1] }, replicates: { splt: fold, split: folds } }
claims:
  first: { value: { metric: value, of: { step: a } }, expect: { less_than: 0 }, pair: false, statistic: mode }
  second: { order: { metric: value, step: a, axis: value, ascending: [1, 2] }, statistic: iqm }
";
    let ended = Sandbox::with(recipe).sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    for part in [
        "recipe.yaml:3:76",
        "has no axis `splt`",
        "unknown kind of replication `folds`",
        "`dataset`, `fold`, `seed`, `repeat`, `condition`",
        "a `value` has one side, so nothing is paired",
        "`mean`, `median`, `quantile`, `iqm`, `failure_rate`",
        "an `order` ranks means",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

/// Times of two steps that ran one after the other decide nothing; those of one step do.
#[test]
fn times_of_two_steps_took_no_turns() {
    let step = |name: &str, values: &str| {
        format!(
            "  {name}: {{ uses: command, matrix: {{ v: [{values}] }}, seeds: 3, exclusive: true, with: {{ run: 'sleep 0.05; echo loop_ms=10$SWEEP_SEED', env: {{ V: '{name} ${{{{ matrix.v }}}}' }} }} }}\n"
        )
    };
    let claim = |of: &str, to: &str| {
        format!("{{ ratio: {{ metric: loop_ms, of: {{ {of} }}, to: {{ {to} }} }}, expect: {{ at_most: 100 }} }}")
    };
    let sandbox = Sandbox::with(&format!(
        "name: study\nsteps:\n{}{}{}claims:\n  steps: {}\n  turns: {}\n",
        step("a", "1"),
        step("b", "1"),
        step("c", "1, 2"),
        claim("step: a", "step: b"),
        claim("step: c, v: 1", "step: c, v: 2")
    ));
    report(&sandbox);
    // Other tests may load this machine.
    for label in sandbox.records().into_keys() {
        crate::conditions::change(&sandbox, &label, |record| {
            let conditions = &mut record["provenance"]["conditions"];
            (conditions["own"], conditions["foreign"]) = (serde_json::json!(0.1), serde_json::json!(0.0));
        });
    }
    let (_, claims) = report(&sandbox);
    let text = because(&claims[0]);
    assert_eq!(claims[0]["state"], "undecided", "{text}");
    let expected =
        "the sides were not measured in turns, but by 2 steps (a, b): values of one axis of a step take turns";
    assert!(text.contains(expected), "{text}");
    assert_eq!(claims[1]["value"], 1.0, "a time that a program reports: {}", claims[1]);
}
