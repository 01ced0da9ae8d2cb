//! Sentences, bounds and a paper's numbers agree: warnings about claims, ties, tables beside claims, and tables of other
//! sizes.

use serde_json::Value;

use crate::sandbox::{Sandbox, list, repository};

fn claims(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap()
}

/// A step with four seeds; values are those of a list for each method.
fn study(values: &[(&str, &str)], rest: &str) -> String {
    let of = |part: &dyn Fn(&(&str, &str)) -> String| values.iter().map(part).collect::<Vec<_>>().join(", ");
    let (methods, values) = (of(&|(method, _)| (*method).to_owned()), of(&|(_, values)| format!("'{values}'")));
    format!(
        "name: study
steps:
  a:
    uses: command
    matrix: {{ zip: {{ method: [{methods}], values: [{values}] }} }}
    seeds: 4
    with:
      run: set -- $VALUES; shift $SWEEP_SEED; echo value=$1
      env: {{ VALUES: '${{{{ matrix.values }}}}', METHOD: '${{{{ matrix.method }}}}' }}
{rest}"
    )
}

#[test]
fn a_number_of_the_sentence_that_no_bound_has_is_named() {
    let recipe = "
name: study
steps: { a: { uses: mock, matrix: { value: [32, 256], end: [done] } } }
claims:
  five: { says: It is five times as fast., ratio: { metric: value, of: { step: a, value: 256 }, to: { step: a, value: 32 } }, expect: { at_least: 3.75 } }
  eight: { says: Eight times the size brings 20 to 30 % (a third in the paper)., ratio: { metric: value, of: { step: a, value: 256 }, to: { step: a, value: 32 } }, expect: { at_least: 1.2, at_most: 1.3 } }
  share: { says: It takes 1.2 % of a step., value: { metric: value, of: { step: a } }, expect: { at_most: 0.02 } }
";
    let sandbox = Sandbox::with(recipe);
    let planned = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(planned.code, Some(0), "{}", planned.stderr);
    let warnings: Vec<&str> = planned.stderr.lines().filter(|line| line.contains(" says `")).collect();
    assert_eq!(
        warnings,
        [
            "warning: recipe.yaml:5:3: claim `five` says `five times`, and expects at least 3.75",
            "warning: recipe.yaml:7:3: claim `share` says `1.2 %`, and expects at most 0.02",
        ]
    );
}

/// The sentences of the shipped claims contain the expected numbers.
#[test]
fn no_shipped_recipe_says_another_number() {
    for path in list(&repository().join("recipes")) {
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("\nclaims:") {
            continue;
        }
        let sandbox = Sandbox::new();
        let planned = sandbox.sweep(&["plan", path.to_str().unwrap(), "--backend", "cpu"]);
        let wrong: Vec<&str> = planned.stderr.lines().filter(|line| line.contains("`, and expects ")).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn a_claim_is_not_tied_against_the_paper() {
    let rest = |paper: &str| {
        format!(
            "claims:
  same: {{ value: {{ metric: value, of: {{ step: a }} }}, expect: {{ at_least: 1.3, negligible: 0.1 }}, paper: {paper} }}
"
        )
    };
    let values = [("x", "1.29 1.30 1.31 1.32")];
    let sandbox = Sandbox::with(&study(&values, &rest("1.31")));
    sandbox.sweep(&["run", "recipe.yaml"]);
    let verdict = &claims(&sandbox)[0];
    assert_eq!((verdict["state"].as_str(), &verdict["paper_within"]), (Some("tied"), &Value::Bool(true)), "{verdict}");
    assert_eq!(verdict["expected"], "at least 1.3");
    sandbox.write("recipe.yaml", &study(&values, &rest("1.5")));
    sandbox.sweep(&["report", "recipe.yaml"]);
    let verdict = &claims(&sandbox)[0];
    assert_eq!((verdict["state"].as_str(), &verdict["paper_within"]), (Some("undecided"), &Value::Bool(false)));
    let because = verdict["because"].as_str().unwrap();
    let reason = "the paper's 1.5 is above the interval, so the claim is not tied although the interval is near the \
        bound";
    assert!(because.contains(reason), "{because}");
}

/// A claim by itself, and the same pair among five comparisons.
#[test]
fn a_claim_does_not_tell_apart_what_its_table_does_not() {
    let values = [
        ("base", "1.00 1.10 1.20 1.30"),
        ("b", "1.02 1.15 1.22 1.35"),
        ("c", "1.00 1.20 1.10 1.35"),
        ("d", "1.10 1.00 1.25 1.30"),
        ("e", "0.90 1.15 1.20 1.40"),
    ];
    let claim = "claims:
  b-is-more: { difference: { metric: value, of: { step: a, method: b }, to: { step: a, method: base } }, expect: { more_than: 0 } }
";
    let sandbox = Sandbox::with(&study(&values, claim));
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(claims(&sandbox)[0]["state"], "supported");
    let table = "tables:
  all: { from: a, compare: { axis: method, baseline: base }, cells: [value] }
";
    sandbox.write("recipe.yaml", &study(&values, &format!("{table}{claim}")));
    sandbox.sweep(&["report", "recipe.yaml"]);
    let verdict = &claims(&sandbox)[0];
    assert_eq!((verdict["state"].as_str(), verdict["lacks"].as_str()), (Some("undecided"), Some("samples")));
    let because = verdict["because"].as_str().unwrap();
    let reason =
        "supported by itself, but table `all`, which corrects for 4 comparisons, does not tell the sides apart (p = ";
    assert!(because.contains(reason), "{because}");
    let shown = sandbox.sweep(&["report", "recipe.yaml"]).stdout;
    let note = "value: values with equal seeds correlate by ";
    assert!(shown.contains(note), "{shown}");
    let other = table.replace("baseline: base", "pairs: [[c, base], [d, base], [e, base]]");
    sandbox.write("recipe.yaml", &study(&values, &format!("{other}{claim}")));
    sandbox.sweep(&["report", "recipe.yaml"]);
    assert_eq!(claims(&sandbox)[0]["state"], "supported", "the table is about other pairs");
}

#[test]
fn other_sizes_are_not_compared_with_the_paper() {
    let values = [("x", "1.0 1.1 1.2 1.3"), ("y", "2.0 2.3 2.1 2.4")];
    let table = |more: &str| {
        format!(
            "tables:
  t: {{ from: a, rows: [method], cells: [value], best: {{ value: min }}{more} }}
"
        )
    };
    let paper = ", paper: [{ method: x, value: 7 }]";
    let sandbox = Sandbox::with(&study(&values, &table(paper)));
    sandbox.sweep(&["run", "recipe.yaml"]);
    let shown = |more: &str| {
        sandbox.write("recipe.yaml", &study(&values, &table(more)));
        let ended = sandbox.sweep(&["report", "recipe.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    assert!(shown(paper).contains('Δ'));
    let smaller = shown(&format!("{paper}, scale: {{ value: 100 }}"));
    assert!(!smaller.contains('Δ') && smaller.contains(" 7 ") && smaller.contains('◀'), "{smaller}");
    assert!(
        smaller.contains("no difference from the paper: it is about value of 100 and more; this was measured at 1")
    );
    let unranked = shown(", scale: { value: 100 }");
    assert!(!unranked.contains('◀') && unranked.contains("rows are not ranked: it is about value of 100 and more"));
    let refused = table(", scale: { value: 100 }").replace("rows: [method]", "compare: { axis: method, baseline: x }");
    sandbox.write("recipe.yaml", &study(&values, &refused.replace(", best: { value: min }", "")));
    let ended = sandbox.sweep(&["report", "recipe.yaml"]);
    assert!(ended.stderr.contains("cannot have `scale`"), "{}", ended.stderr);
}

/// Seven differences, of which one is far from the others: the mean is undecided, and typical values are not.
#[test]
fn a_verdict_has_those_of_other_choices() {
    let sandbox = Sandbox::new();
    let recipe = |outlier: &str| {
        let values = [("x", "1.0 1.1 1.2 1.3 1.4 1.5 1.6 1.7"), ("y", "2.1 2.15 2.21 2.34 2.37 2.52 2.64 LAST")];
        let claim = "claims:
  more: { difference: { metric: value, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { more_than: 0 } }
";
        study(&values, claim).replace("LAST", outlier).replace("seeds: 4", "seeds: 8")
    };
    sandbox.write("recipe.yaml", &recipe("2.71"));
    sandbox.sweep(&["run", "recipe.yaml"]);
    let verdict = &claims(&sandbox)[0];
    let choices: Vec<(&str, &str)> = verdict["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| (choice["choice"].as_str().unwrap(), choice["state"].as_str().unwrap()))
        .collect();
    let all = ["the median", "the interquartile mean", "independent samples"];
    assert_eq!(choices, all.map(|choice| (choice, "supported")));
    assert!(!verdict["because"].as_str().unwrap().contains("other choices"), "{verdict}");
    sandbox.write("recipe.yaml", &recipe("-30"));
    sandbox.sweep(&["run", "recipe.yaml"]);
    let verdict = &claims(&sandbox)[0];
    assert_eq!(verdict["state"], "undecided", "{verdict}");
    let because = verdict["because"].as_str().unwrap();
    let differing =
        "; by other choices: supported with the interquartile mean, supported with the mean without outliers";
    assert!(because.contains(differing), "{because}");
    let page = sandbox.read("results/reports/study/index.html");
    assert!(page.contains("other choices with the same verdict: 2 of 4 – "), "{page}");
}

/// Losses that fall to a minimum and rise again: the last values differ, the smallest do not.
#[test]
fn a_verdict_has_those_of_other_numbers_of_the_curve() {
    let recipe = "name: study
steps:
  a:
    uses: command
    matrix: { method: [x, y] }
    seeds: 5
    with: { argv: [python3, curve.py, '${{ matrix.method }}'], inputs: [curve.py] }
claims:
  worse: { difference: { metric: loss, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { more_than: 0.1 } }
";
    let program = "
import json, os, sys
seed, slope = int(os.environ['SWEEP_SEED']), 0.02 if sys.argv[1] == 'y' else 0.01
with open(os.environ['SWEEP_REPORT'], 'a') as report:
    for step in range(1, 13):
        loss = 1 + 0.01 * seed + (step - 6) ** 2 * slope + 0.1 * (slope - 0.01) * (seed * seed % 3)
        print(json.dumps({'step': step, 'loss': loss}), file=report)
";
    let sandbox = Sandbox::with(recipe);
    sandbox.write("curve.py", program);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let verdict = &claims(&sandbox)[0];
    assert_eq!(verdict["state"], "supported", "{verdict}");
    let because = verdict["because"].as_str().unwrap();
    assert!(because.contains("; by other choices: refuted with the smallest value of the curve"), "{because}");
    // 0.01 times the mean of 4, 9, 16, 25 and 36, and the mean of the part that depends on the seed.
    let end = verdict["choices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|choice| choice["choice"] == "the mean of the last 5 values of the curve");
    assert!((end.unwrap()["value"].as_f64().unwrap() - 0.1806).abs() < 1e-9, "{verdict}");
}
