//! Claims: supported, refuted and undecided ones.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Three methods at four seeds, with numbers from the matrix: every verdict is known beforehand.
const STUDY: &str = "\
name: study
steps:
  a:
    uses: command
    matrix:
      zip:
        method: [x, y, z]
        values: ['1.00 1.10 1.20 1.30', '2.01 2.21 2.40 2.61', '2.00 2.30 2.30 2.71']
    seeds: 4
    with:
      run: set -- $VALUES; shift $SWEEP_SEED; echo value=$1
      env: { VALUES: '${{ matrix.values }}', METHOD: '${{ matrix.method }}' }
  one: { uses: mock, with: { value: 5 } }
tables:
  differences: { from: a, compare: { axis: method, pairs: [[y, x], [z, y]] }, cells: [value] }
claims:
  doubled:
    says: y is twice x.
    ratio: { metric: value, of: { step: a, method: y }, to: { step: a, method: x } }
    expect: { at_least: 1.95, at_most: 2.05 }
    paper: 2
  tripled: { ratio: { metric: value, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { at_least: 3 } }
  z-is-more: { difference: { metric: value, of: { step: a, method: z }, to: { step: a, method: y } }, expect: { at_least: 0.01 } }
  ranked: { order: { metric: value, step: a, axis: method, ascending: [x, y] } }
  reversed: { order: { metric: value, step: a, axis: method, ascending: [y, x] } }
  unranked: { order: { metric: value, step: a, axis: method, ascending: [x, y, z] } }
  around-two: { value: { metric: value, of: { step: a, method: z } }, expect: { at_least: 1.5, at_most: 3 } }
  single: { value: { metric: value, of: { step: one } }, expect: { at_least: 4 } }
  not-paired: { difference: { metric: value, of: { step: a, method: y }, to: { step: one } }, expect: { at_most: 0 } }
";

fn verdicts(sandbox: &Sandbox) -> Vec<(String, String, String)> {
    let claims: Vec<Value> = serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap();
    let text = |claim: &Value, key: &str| claim[key].as_str().unwrap().to_owned();
    claims.iter().map(|claim| (text(claim, "claim"), text(claim, "state"), text(claim, "because"))).collect()
}

#[test]
fn every_kind_of_verdict() {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "a refuted claim is a result: {}", ended.stderr);
    let states: Vec<(String, String)> =
        verdicts(&sandbox).into_iter().map(|(claim, state, _)| (claim, state)).collect();
    let expected = [
        ("doubled", "supported"),
        ("tripled", "refuted"),
        ("z-is-more", "undecided"),
        ("ranked", "supported"),
        ("reversed", "refuted"),
        ("unranked", "undecided"),
        ("around-two", "supported"),
        ("single", "undecided"),
        ("not-paired", "undecided"),
    ];
    assert_eq!(states, expected.map(|(claim, state)| (claim.to_owned(), state.to_owned())));
    insta::assert_snapshot!(sandbox.sweep(&["report", "recipe.yaml"]).stdout);
    insta::assert_snapshot!("claims_in_markdown", sandbox.sweep(&["report", "recipe.yaml", "--format", "md"]).stdout);
}

#[test]
fn strict_ends_with_a_code_of_its_own() {
    let sandbox = Sandbox::with(STUDY);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--strict"]).code, Some(6));
    assert_eq!(sandbox.sweep(&["report", "recipe.yaml", "--strict"]).code, Some(6));
    let mild = STUDY.replace("at_least: 3 }", "at_least: 1 }").replace("ascending: [y, x]", "ascending: [x, y]");
    sandbox.write("recipe.yaml", &mild);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--strict"]).code, Some(0), "undecided is not refuted");
}

#[test]
fn what_is_not_measured_is_not_decided() {
    let sandbox = Sandbox::with(STUDY);
    sandbox.sweep(&["run", "recipe.yaml", "--only", "a/method=x"]);
    sandbox.sweep(&["report", "recipe.yaml"]);
    let verdicts = verdicts(&sandbox);
    let (_, state, because) = &verdicts[0];
    assert_eq!((state.as_str(), because.as_str()), ("undecided", "4 jobs without a result"));
}
