//! Decisions that hold: absence, looks, resolution, ties, marks, levels, and the number of claims.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A step whose programs print the number that the matrix has for their method and seed; `-` fails.
fn study(methods: &[(&str, &str)], seeds: &str, rest: &str) -> String {
    let names: Vec<&str> = methods.iter().map(|(name, _)| *name).collect();
    let values: Vec<String> = methods.iter().map(|(_, values)| format!("'{values}'")).collect();
    format!(
        "\
name: study
steps:
  a:
    uses: command
    matrix: {{ zip: {{ method: [{}], values: [{}] }} }}
    seeds: {seeds}
    with:
      run: set -- $VALUES; shift $SWEEP_SEED; test $1 != - && echo loss=$1
      env: {{ VALUES: '${{{{ matrix.values }}}}', METHOD: '${{{{ matrix.method }}}}' }}
    continue-on-error: true
{rest}",
        names.join(", "),
        values.join(", ")
    )
}

/// The difference of `y` and `x` as a claim.
fn difference(name: &str, expect: &str, more: &str) -> String {
    format!(
        "  {name}: {{ difference: {{ metric: loss, of: {{ step: a, method: y }}, to: {{ step: a, method: x }} }}, expect: {{ {expect} }}{more} }}\n"
    )
}

/// Name, state and reason of each verdict.
fn verdicts(sandbox: &Sandbox) -> Vec<(String, String, String)> {
    let claims: Vec<Value> = serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap();
    let text = |claim: &Value, key: &str| claim[key].as_str().unwrap().to_owned();
    claims.iter().map(|claim| (text(claim, "claim"), text(claim, "state"), text(claim, "because"))).collect()
}

fn states(sandbox: &Sandbox) -> Vec<String> {
    verdicts(sandbox).into_iter().map(|(_, state, _)| state).collect()
}

/// Runs a recipe that may have failing jobs, and returns its standard output.
fn run(recipe: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert!(matches!(ended.code, Some(0 | 5)), "{}", ended.stderr);
    (sandbox, ended.stdout)
}

/// The first look of nine: with p = 0.03 a single look would be significant.
#[test]
fn a_comparison_allows_for_all_looks_from_the_first_one_on() {
    let methods = [("x", "10 11 12 13 14 15 16 17 18 19"), ("y", "11 12.1 13.05 14 15 16 17 18 19 20")];
    let table = "tables: { t: { from: a, compare: { axis: method, pairs: [[y, x]], decide: true }, cells: [loss] } }";
    let recipe = study(&methods, "{ min: 2, max: 10, until: decided }", table);
    let (sandbox, stdout) = run(&recipe);
    assert_eq!(sandbox.records().len(), 6, "three seeds, not two: {stdout}");
    assert!(stdout.contains("over 9 looks"), "{stdout}");
}

#[test]
fn a_job_without_a_result_blocks_a_decision() {
    let methods = [("x", "10 11 12"), ("y", "1 2 -")];
    let claims: String = [
        difference("block", "at_most: 0", ""),
        difference("ignore", "at_most: 0", ", missing: ignore"),
        difference("worst", "at_most: 0", ", missing: worst"),
    ]
    .concat();
    let rest = format!(
        "metrics: {{ loss: {{ better: min, resolution: 0.1 }} }}\n\
         tables:\n  block: {{ from: a, rows: [method], cells: [loss] }}\n  \
         ignore: {{ from: a, rows: [method], cells: [loss], missing: ignore }}\n  \
         differences: {{ from: a, compare: {{ axis: method, pairs: [[y, x]] }}, cells: [loss] }}\n\
         claims:\n{claims}"
    );
    let (sandbox, stdout) = run(&study(&methods, "3", &rest));
    assert_eq!(states(&sandbox), ["undecided", "supported", "undecided"], "{:?}", verdicts(&sandbox));
    insta::assert_snapshot!(stdout);
}

/// A program that prints a number that is none has no result for it.
#[test]
fn a_loss_that_is_not_finite_is_missing() {
    let rest = format!("claims:\n{}", difference("better", "at_most: 0", ""));
    let (sandbox, _) = run(&study(&[("x", "10 11 12"), ("y", "1 2 nan")], "3", &rest));
    let (_, state, because) = &verdicts(&sandbox)[0];
    assert_eq!(state, "undecided");
    assert_message!(because);
}

/// Two seeds that differ by one item of a hundred.
#[test]
fn equal_differences_are_as_certain_as_the_metric_is_precise() {
    let methods = [("x", "0.80 0.82"), ("y", "0.81 0.83")];
    let of = |metrics: &str| {
        let rest = format!(
            "{metrics}tables: {{ t: {{ from: a, compare: {{ axis: method, pairs: [[y, x]] }}, cells: [loss] }} }}\n\
             claims:\n{}",
            difference("more", "at_least: 0", "")
        );
        let (sandbox, stdout) = run(&study(&methods, "2", &rest));
        (states(&sandbox)[0].clone(), stdout)
    };
    let (unknown, stdout) = of("");
    assert_eq!(unknown, "undecided");
    insta::assert_snapshot!(stdout);
    assert_eq!(of("metrics: { loss: { resolution: 0.01 } }\n").0, "undecided");
    assert_eq!(of("metrics: { loss: { deterministic: true } }\n").0, "supported");
}

#[test]
fn a_tie_is_neither_more_nor_less() {
    let methods = [("x", "1 1 1"), ("y", "1 1 1")];
    let claims: String = [("at_least: 0", "a"), ("at_most: 0", "b"), ("more_than: 0", "c"), ("less_than: 0", "d")]
        .map(|(expect, name)| difference(name, expect, ""))
        .concat();
    let rest = format!("metrics: {{ loss: {{ deterministic: true }} }}\nclaims:\n{claims}");
    let (sandbox, _) = run(&study(&methods, "3", &rest));
    assert_eq!(states(&sandbox), ["supported", "supported", "refuted", "refuted"]);
}

/// Differences around zero, which no number of seeds tells from it.
#[test]
fn a_difference_that_is_negligible_ends_in_a_tie() {
    let methods = [
        ("x", "1.000 1.100 1.200 1.300 1.400 1.500 1.600 1.700"),
        ("y", "1.001 1.099 1.202 1.298 1.401 1.499 1.602 1.698"),
    ];
    let seeds = "{ min: 2, max: 8, until: decided }";
    let of = |expect: &str, more: &str| {
        let claims = format!("claims:\n{}", difference("less", expect, more));
        let (sandbox, stdout) = run(&study(&methods, seeds, &claims));
        (states(&sandbox)[0].clone(), sandbox.records().len(), stdout, sandbox)
    };
    assert_eq!(of("less_than: 0", "").0, "undecided");
    let (state, records, stdout, sandbox) = of("less_than: 0, negligible: 0.02", "");
    assert_eq!(state, "tied", "{stdout}");
    assert!(records < 16, "seeds end with a tie: {records}");
    insta::assert_snapshot!(stdout);
    assert!(sandbox.read("results/reports/study/index.html").contains("1 claim: 1 tied"));
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--strict"]).code, Some(0), "a tie is not refuted");
    assert_eq!(of("at_most: 0.01, negligible: 0.02", "").0, "supported", "certain to be on one side");
    assert_eq!(of("at_least: 0.01, negligible: 0.02", "").0, "refuted");
    assert_eq!(of("less_than: 0, negligible: 0.0001", "").0, "undecided");
    // A tie is nearer than a decision. SciPy has the same number for a power of 90 % at each end, at the level of seeds that are added
    // after the looks at 2 to 8.
    let (state, _, stdout, _) = of("less_than: 0, negligible: 0.002", "");
    assert_eq!(state, "undecided");
    assert!(stdout.contains("about 17 seeds would decide it"), "{stdout}");
    assert_eq!(of("within: 0.001, negligible: 0.02", "").0, "tied");
    // A ratio of 1 within two percent.
    let ratio = "claims: { c: { ratio: { metric: loss, of: { step: a, method: y }, to: { step: a, method: x } }, \
                 expect: { at_least: 1.0001, negligible: 0.02 } } }";
    let (sandbox, _) = run(&study(&methods, seeds, ratio));
    assert_eq!(states(&sandbox), ["tied"], "{:?}", verdicts(&sandbox));
}

/// Rows that differ by five standard deviations of the noise: Tukey's test tells them apart.
#[test]
fn marks_tell_rows_apart() {
    // Noise with a standard deviation of 1 around 100 for the best row, and around 110 for the others.
    let noise = ["0.3 -1.2 0.7", "-0.5 0.9 -0.8", "1.1 -0.2 0.4", "-0.9 0.6 -1.3", "0.2 1.4 -0.6", "-1.1 -0.4 0.8"];
    let row = |index: usize, base: f64, n: usize| -> String {
        let values = noise[index].split(' ').take(n).map(|value| base + value.parse::<f64>().unwrap());
        values.map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(" ")
    };
    let table = "tables: { t: { from: a, rows: [method], cells: [loss], best: { loss: min } } }";
    let of = |rows: &[(usize, f64)], n: usize| {
        let values: Vec<(String, String)> =
            rows.iter().enumerate().map(|(at, (index, base))| (format!("m{at}"), row(*index, *base, n))).collect();
        let methods: Vec<(&str, &str)> = values.iter().map(|(name, values)| (name.as_str(), values.as_str())).collect();
        let (_, stdout) = run(&study(&methods, &n.to_string(), table));
        let marks = stdout.lines().filter(|line| {
            let line = line.trim_start();
            line.starts_with('m') && line[1..].starts_with(|char: char| char.is_ascii_digit())
        });
        let mark = |line: &str| line.trim_end().chars().last().filter(|char| "◀≈?".contains(*char)).unwrap_or('-');
        (marks.map(mark).collect::<String>(), stdout)
    };
    let (marks, stdout) = of(&[(0, 100.0), (1, 110.0), (2, 110.0), (3, 100.5), (4, 110.0), (5, 110.0)], 3);
    assert_eq!(marks, "◀--≈--", "{stdout}");
    insta::assert_snapshot!(stdout);
    assert_eq!(of(&[(0, 100.0), (1, 100.1), (2, 100.2)], 3).0, "≈≈≈", "nothing is told apart: nothing is best");
    assert_eq!(of(&[(0, 100.0), (1, 110.0)], 2).0, "??", "two seeds of two rows say nothing");
    assert_eq!(of(&[(0, 100.0), (1, 110.0)], 1).0, "--", "one seed has no mark");
}

/// Two widths with three seeds each are two units, not six.
/// Three seeds in four methods: own errors with two degrees of freedom tell nothing apart after Holm's correction, one error
/// with six does. The numbers are those of `SciPy` and `NumPy`.
#[test]
fn comparisons_with_a_baseline_can_share_one_error() {
    let methods = [("x", "10.1 11.2 12.0"), ("y", "10.4 11.3 12.4"), ("z", "8.0 9.4 9.8"), ("w", "10.0 11.4 11.9")];
    let tables = "tables:\n  own: { from: a, compare: { axis: method, baseline: x }, cells: [loss] }\n  pairs: { from: a, compare: { axis: method, pairs: [[y, x], [z, x], [w, x]] }, cells: [loss] }\n  \
                  baseline: { from: a, compare: { axis: method, baseline: x, error: pooled }, cells: [loss] }\n  \
                  ratios: { from: a, compare: { axis: method, baseline: x, error: pooled, show: ratio }, cells: [loss] }\n";
    let (sandbox, _) = run(&study(&methods, "3", tables));
    for name in ["pairs", "baseline", "ratios"] {
        insta::assert_snapshot!(
            format!("decisions_{name}"),
            sandbox.read(&format!("results/reports/study/tables/{name}.md"))
        );
    }
    let read = |name| sandbox.read(&format!("results/reports/study/tables/{name}.csv"));
    assert_eq!(read("own"), read("pairs"), "a baseline is short for the pairs with it");
    // A value with a missing seed keeps its own error.
    let methods = [("x", "10.1 11.2 12.0"), ("y", "10.4 11.3 -"), ("z", "8.0 9.4 9.8")];
    let table = "tables: { t: { from: a, compare: { axis: method, baseline: x, error: pooled }, missing: ignore, cells: [loss] } }\n";
    let (sandbox, stdout) = run(&study(&methods, "3", table));
    assert_eq!(sandbox.records().len(), 8, "{stdout}");
    assert!(stdout.contains("(Holm)") && !stdout.contains("Dunnett"), "{stdout}");
}

#[test]
fn seeds_are_averaged_within_the_values_of_other_axes() {
    let recipe = "\
name: study
steps:
  a:
    uses: command
    matrix: { method: [x, y], width: [1, 4] }
    seeds: 3
    with:
      run: test $METHOD = x && echo loss=0.0$SWEEP_SEED || echo loss=$WIDTH.0$SWEEP_SEED$SWEEP_SEED
      env: { METHOD: '${{ matrix.method }}', WIDTH: '${{ matrix.width }}' }
claims:
  more: { difference: { metric: loss, of: { step: a, method: y }, to: { step: a, method: x } }, expect: { at_least: 0 } }
";
    let (sandbox, _) = run(recipe);
    let (_, state, because) = &verdicts(&sandbox)[0];
    assert_eq!(state, "undecided", "two units: {because}");
    assert_message!(because);
}

#[test]
fn equivalence_is_claimed_and_its_odds_are_shown() {
    let methods = [("x", "1.00 1.01 1.02 1.03"), ("y", "1.001 1.009 1.021 1.031")];
    let rest = format!(
        "tables: {{ t: {{ from: a, compare: {{ axis: method, pairs: [[y, x]], equivalent: 0.01 }}, cells: [loss] }} }}\n\
         claims:\n{}{}",
        difference("same", "within: 0.01", ""),
        difference("too-narrow", "within: 0.0001", "")
    );
    let (sandbox, stdout) = run(&study(&methods, "4", &rest));
    assert_eq!(states(&sandbox), ["supported", "undecided"], "{:?}", verdicts(&sandbox));
    insta::assert_snapshot!(stdout);
}

/// Four claims whose probability of chance is about 0.03 each.
#[test]
fn a_family_of_claims_is_corrected() {
    let methods = [("x", "10 11 12"), ("y", "10.8 12.3 13.1")];
    let claims: String = (0..4).map(|index| difference(&format!("c{index}"), "at_least: 0", "")).collect();
    let (alone, stdout) = run(&study(&methods, "3", &format!("claims:\n{claims}")));
    assert_eq!(states(&alone), ["supported"; 4], "{stdout}");
    let (family, corrected) = run(&study(&methods, "3", &format!("claims:\n  family: holm\n{claims}")));
    assert_eq!(states(&family), ["undecided"; 4], "{corrected}");
    insta::assert_snapshot!(format!("{}\n---\n{}", stdout.lines().last().unwrap(), corrected));
}

/// Fixed seeds that are raised after a look, and an adaptive maximum that is.
#[test]
fn seeds_that_are_added_after_a_look_are_allowed_for() {
    let methods = [("x", "10 11 12 13 14"), ("y", "10.3 12.9 12.5 14.7 15.1")];
    let rest = format!("claims:\n{}", difference("more", "at_least: 0", ""));
    let sandbox = Sandbox::with(&study(&methods, "3", &rest));
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(states(&sandbox), ["undecided"]);
    sandbox.write("recipe.yaml", &study(&methods, "5", &rest));
    sandbox.sweep(&["run", "recipe.yaml"]);
    let raised = verdicts(&sandbox)[0].clone();
    let (at_once, _) = run(&study(&methods, "5", &rest));
    let planned = verdicts(&at_once)[0].clone();
    assert_eq!((raised.1.as_str(), planned.1.as_str()), ("undecided", "supported"), "{} {}", raised.2, planned.2);
    assert_message!(raised.2);
    // The same records in another order of runs give the same verdict.
    sandbox.sweep(&["report", "recipe.yaml"]);
    assert_eq!(verdicts(&sandbox)[0], raised);
}

/// Three looks were made under the adaptive plan, whatever the recipe says later.
#[test]
fn a_fixed_number_of_seeds_after_adaptive_ones_keeps_their_looks() {
    let methods = [("x", "10 11 12 13 14"), ("y", "10.3 12.9 12.5 14.7 15.1")];
    let rest = format!("claims:\n{}", difference("more", "at_least: 0", ""));
    let sandbox = Sandbox::with(&study(&methods, "{ min: 3, max: 5, until: decided }", &rest));
    sandbox.sweep(&["run", "recipe.yaml"]);
    let adaptive = verdicts(&sandbox)[0].clone();
    for seeds in ["5", "{ min: 5, max: 5, until: decided }", "{ min: 4, max: 5, until: decided }"] {
        sandbox.write("recipe.yaml", &study(&methods, seeds, &rest));
        sandbox.sweep(&["run", "recipe.yaml"]);
        let fixed = verdicts(&sandbox)[0].clone();
        assert!(fixed.1 == "undecided" && fixed.2.contains("over 3 looks"), "{adaptive:?} {fixed:?}");
        assert_eq!(fixed.1, adaptive.1);
    }
}
