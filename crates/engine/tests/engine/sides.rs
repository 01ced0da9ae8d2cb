//! The sides of claims: which measurements are independent, which pair, and which tables a verdict has to agree with. Reference
//! intervals are those of `SciPy` 1.17.1.

use std::fmt::Write as _;

use serde_json::Value;

use crate::sandbox::Sandbox;

fn claims(sandbox: &Sandbox, recipe: &str, name: &str) -> Vec<Value> {
    let ended = sandbox.sweep(&["run", recipe]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&sandbox.read(&format!("results/reports/{name}/claims.json"))).unwrap()
}

/// The verdicts on claims about jobs that print these values, in the order of the seeds.
fn judged(values: &[(&str, &[f64])], rest: &str) -> Vec<Value> {
    let sandbox = printing(&values.iter().map(|(method, values)| (*method, texts(values))).collect::<Vec<_>>(), rest);
    claims(&sandbox, "recipe.yaml", "study")
}

fn texts(values: &[f64]) -> Vec<String> {
    values.iter().map(|value| format!("value={value:?}")).collect()
}

/// Jobs of methods and seeds that print these texts.
fn printing(texts: &[(&str, Vec<String>)], rest: &str) -> Sandbox {
    let mut recipe = "name: study\nsteps:\n  a:\n    uses: command\n    matrix:\n      include:\n".to_owned();
    for (method, texts) in texts {
        for seed in 0..texts.len() {
            let _ = writeln!(recipe, "        - {{ method: {method}, seed: {seed} }}");
        }
    }
    recipe += "    with: { run: 'cat texts/${{ matrix.method }}-${{ matrix.seed }}' }\n";
    let sandbox = Sandbox::with(&(recipe + rest));
    fs_err::create_dir(sandbox.path("texts")).unwrap();
    for (method, texts) in texts {
        for (seed, text) in texts.iter().enumerate() {
            sandbox.write(&format!("texts/{method}-{seed}"), text);
        }
    }
    sandbox
}

fn of<'v>(verdicts: &'v [Value], claim: &str) -> &'v Value {
    verdicts.iter().find(|verdict| verdict["claim"] == claim).unwrap()
}

fn because(verdict: &Value) -> &str {
    verdict["because"].as_str().unwrap()
}

fn has_interval(verdict: &Value, low: f64, high: f64) -> bool {
    let near = |index: usize, wanted: f64| (verdict["interval"][index].as_f64().unwrap() - wanted).abs() < 1e-5;
    near(0, low) && near(1, high)
}

#[test]
fn imported_runs_pair_by_their_seeds() {
    let sandbox = Sandbox::new();
    let lines = "opt,seed,loss\na,0,1.0\na,1,1.5\na,2,1.7\nb,0,1.2\nb,1,1.68\nb,2,1.95\n";
    sandbox.write("r.csv", lines);
    let ended = sandbox.sweep(&["import", "r.csv"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let more = "\nclaims:\n  more: { difference: { metric: loss, of: { step: runs, opt: b }, to: { step: runs, opt: a } }, expect: { more_than: 0 } }\n";
    sandbox.write("r.yaml", &(sandbox.read("r.yaml") + more));
    let verdicts = claims(&sandbox, "r.yaml", "r");
    let more = of(&verdicts, "more");
    assert!(because(more).contains("3 pairs") && more["state"] == "supported", "{more}");
    assert!(has_interval(more, 0.120_433, 0.299_567), "{more}");
}

#[test]
fn rounding_of_floating_point_numbers_decides_no_bound() {
    let side = |method: &str| format!("{{ step: a, method: {method} }}");
    let claim = |kind: &str, of: &str, to: &str, expect: &str| {
        format!("{{ {kind}: {{ metric: value, of: {}, to: {} }}, expect: {{ {expect} }} }}\n", side(of), side(to))
    };
    let rest = format!(
        "metrics: {{ value: {{ deterministic: true }} }}\nclaims:\n  at-most: {}  more: {}  seven: {}  differ: {}  exactly: {}  below: {}",
        claim("ratio", "nine", "three", "at_most: 3"),
        claim("ratio", "nine", "three", "more_than: 3"),
        claim("ratio", "more", "three", "at_least: 7"),
        claim("difference", "third", "tenth", "at_least: 0.2"),
        claim("ratio", "nine", "three", "at_least: 3, at_most: 3"),
        claim("difference", "third", "tenth", "less_than: 0.2000001"),
    );
    let values: [(&str, &[f64]); 5] =
        [("nine", &[9.0]), ("three", &[3.0]), ("more", &[21.0]), ("third", &[0.3]), ("tenth", &[0.1])];
    let verdicts = judged(&values, &rest);
    for (claim, state) in [
        ("at-most", "supported"),
        ("more", "refuted"),
        ("seven", "supported"),
        ("differ", "supported"),
        ("exactly", "supported"),
        ("below", "supported"),
    ] {
        assert_eq!(of(&verdicts, claim)["state"], state, "{}", of(&verdicts, claim));
    }
}

/// The difference of b and a has p = 0.018, and 0.054 among the three comparisons of the table.
#[test]
fn a_table_keeps_verdicts_that_depend_on_a_difference() {
    let values: [(&str, &[f64]); 3] =
        [("a", &[1.0, 2.0, 3.0, 4.0, 5.0]), ("b", &[1.1, 2.2, 3.5, 4.6, 5.55]), ("c", &[1.3, 1.6, 3.2, 3.9, 5.05])];
    let two = "metric: value, of: { step: a, method: b }, to: { step: a, method: a }";
    let rest = format!(
        "tables:\n  pairs: {{ from: a, compare: {{ axis: method, pairs: [[b, a], [c, a], [c, b]] }}, cells: [value] }}\nclaims:\n  \
         more: {{ difference: {{ {two} }}, expect: {{ more_than: 0 }} }}\n  below: {{ difference: {{ {two} }}, expect: {{ less_than: 1 }} }}\n  \
         far: {{ difference: {{ {two} }}, expect: {{ more_than: 1 }} }}\n  order: {{ order: {{ metric: value, step: a, axis: method, ascending: [a, b] }} }}\n  \
         typical: {{ difference: {{ {two} }}, statistic: iqm, expect: {{ less_than: 0 }} }}\n"
    );
    let verdicts = judged(&values, &rest);
    for (claim, state, is_kept) in [
        ("more", "undecided", true),
        ("below", "supported", false),
        ("far", "refuted", false),
        ("order", "undecided", true),
        ("typical", "undecided", false),
    ] {
        let verdict = of(&verdicts, claim);
        assert_eq!(verdict["state"], state, "{verdict}");
        let text = "but table `pairs`, which corrects for 3 comparisons, does not tell the sides apart (p = 0.05";
        assert_eq!(because(verdict).contains(text), is_kept, "{verdict}");
    }
    assert!(has_interval(of(&verdicts, "below"), 0.110_971, 0.669_029), "{}", of(&verdicts, "below"));
}

#[test]
fn unequal_numbers_of_seeds_are_no_looks() {
    let rest = "claims: { less: { difference: { metric: value, of: { step: a, method: b }, to: { step: a, method: a } }, expect: { less_than: 0 } } }\n";
    let verdicts = judged(&[("a", &[1.0, 1.2, 0.9, 1.1, 1.3, 0.8]), ("b", &[0.5, 0.4, 0.7])], rest);
    let less = of(&verdicts, "less");
    assert!(because(less).contains("3 pairs; ") && !because(less).contains("looks"), "{less}");
    assert!(because(less).contains("3 jobs of `a` left out: the other side lacks seeds 3, 4, 5"), "{less}");
    // `ttest_rel(b, a[:3]).confidence_interval()`.
    assert!(has_interval(less, -1.245_241, 0.245_241), "{less}");
}

/// Values of one seed are not independent, so both methods of the first side are averaged within it.
#[test]
fn a_side_of_several_settings_has_one_value_for_each_seed() {
    let values: [(&str, &[f64]); 3] =
        [("a", &[1.0, 3.0, 5.0, 7.0]), ("b", &[1.4, 3.2, 5.6, 7.4]), ("c", &[1.0, 2.9, 5.1, 7.1])];
    let rest = "claims: { more: { difference: { metric: value, of: { step: a, method: [a, b] }, to: { step: a, method: c } }, expect: { more_than: 0 } } }\n";
    let verdicts = judged(&values, rest);
    let more = of(&verdicts, "more");
    assert!(because(more).contains("4 pairs") && more["state"] == "supported", "{more}");
    assert!(has_interval(more, 0.095_439, 0.254_561), "{more}");
}

/// Imported runs have names of their own, which separate no values of a seed: five against five seeds. `SciPy`'s Welch test of the means
/// over the methods of each seed.
#[test]
fn imported_sides_of_several_settings_without_pairs_have_one_value_for_each_seed() {
    let sandbox = Sandbox::new();
    let seeds = [0.1, 1.4, -0.8, 2.1, 0.6];
    let mut csv = String::from("method,seed,value\n");
    for (index, method) in ["a", "b", "c", "d"].into_iter().enumerate() {
        for (seed, value) in seeds.iter().enumerate() {
            let (seed, value) = if index < 2 { (seed, *value) } else { (seed + 10, value * 0.9 + 0.5) };
            let _ = writeln!(csv, "{method},{seed},{}", value + 0.01 * index as f64);
        }
    }
    // Only one of the two methods has this seed.
    csv.push_str("a,5,100\n");
    sandbox.write("runs.csv", &csv);
    let ended = sandbox.sweep(&["import", "csv", "runs.csv", "--metric", "value"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let recipe = "name: study\nextends: runs.runs.yaml\nclaims: { more: { difference: { metric: value, of: { step: runs, method: [a, b] }, to: { step: runs, method: [c, d] } }, expect: { more_than: 0 } } }\n";
    sandbox.write("recipe.yaml", recipe);
    let verdicts = claims(&sandbox, "recipe.yaml", "study");
    let more = of(&verdicts, "more");
    assert!(because(more).contains("5 against 5, not paired"), "{more}");
    assert!(because(more).contains("1 value left out"), "{more}");
    assert!(has_interval(more, -2.016_719, 1.112_719), "{more}");
}

/// Each configuration has one size, although its jobs measure slightly different ones; the law needs no table that names them.
#[test]
fn measured_sizes_of_a_configuration_are_one_size() {
    let values: [(&str, [f64; 3]); 3] =
        [("s", [100.0, 101.0, 99.0]), ("m", [200.0, 202.0, 198.0]), ("l", [400.0, 404.0, 396.0])];
    let text = |seed: usize, tokens: f64| {
        format!("tokens={tokens}\nloss={}\n", 10.0 * tokens.powf(-0.5) + 0.001 * seed as f64)
    };
    let jobs: Vec<(&str, Vec<String>)> = values
        .into_iter()
        .map(|(method, tokens)| (method, (0..3).map(|seed| text(seed, tokens[seed])).collect()))
        .collect();
    let rest = "claims: { falls: { law: { metric: loss, of: { step: a }, x: tokens }, expect: { less_than: 0 } } }\n";
    let verdicts = claims(&printing(&jobs, rest), "recipe.yaml", "study");
    assert!(because(of(&verdicts, "falls")).contains("means at 3 sizes of tokens"), "{}", of(&verdicts, "falls"));
}

/// The p-value of b and a is 0.017832; those of c and d lack a result each.
#[test]
fn comparisons_without_results_are_corrected_for() {
    let seeds = [1.0, 2.0, 3.0, 4.0, 5.0];
    let diverged = [1.3, 1.6, 3.2, 3.9, f64::NAN];
    let values: [(&str, &[f64]); 4] =
        [("a", &seeds), ("b", &[1.1, 2.2, 3.5, 4.6, 5.55]), ("c", &diverged), ("d", &diverged)];
    let texts: Vec<(&str, Vec<String>)> = values.iter().map(|(method, values)| (*method, texts(values))).collect();
    let rest = "tables: { pairs: { from: a, compare: { axis: method, baseline: a }, cells: [value] } }\n";
    let sandbox = printing(&texts, rest);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert!(ended.stdout.contains("p is corrected for 3 comparisons (Holm)"), "{}{}", ended.stdout, ended.stderr);
    let csv = sandbox.read("results/reports/study/tables/pairs.csv");
    let line = csv.lines().find(|line| line.starts_with("b − a")).unwrap_or_default();
    assert!(line.contains("0.05349"), "{csv}");
}

#[test]
fn rows_with_seeds_of_their_own_are_no_choice_of_seeds() {
    let rest =
        "claims: { positive: { value: { metric: value, of: { step: a, method: b } }, expect: { more_than: 0 } } }\n";
    let text = "name: study\nsteps:\n  a:\n    uses: command\n    matrix:\n      include:\n";
    let row = |method: &str, seed: usize| format!("        - {{ method: {method}, seed: {seed} }}\n");
    let rows: Vec<String> = (0..5).map(|seed| row("a", seed)).chain((10..13).map(|seed| row("b", seed))).collect();
    let run = "    with: { run: 'echo value=1$SWEEP_SEED ${{ matrix.method }}' }\n";
    let sandbox = Sandbox::with(&[text, &rows.concat(), run, rest].concat());
    let verdicts = claims(&sandbox, "recipe.yaml", "study");
    assert!(!because(of(&verdicts, "positive")).contains("chosen seeds"), "{verdicts:?}");
}

#[test]
fn equal_values_of_a_deterministic_metric_are_in_no_order() {
    let rest = "metrics: { value: { deterministic: true } }\nclaims:\n  up: { order: { metric: value, step: a, axis: method, ascending: [a, b] } }\n";
    let verdicts = judged(&[("a", &[3.0]), ("b", &[3.0])], rest);
    let up = of(&verdicts, "up");
    assert!(up["state"] == "refuted" && because(up).contains("equal, against a < b"), "{up}");
}

/// Eight against no discordant pairs: the exact test has p = 2 / 2^8.
#[test]
fn failures_of_imported_runs_pair_by_their_seeds() {
    let sandbox = Sandbox::new();
    let mut lines = "opt,seed,loss,status\n".to_owned();
    for seed in 0..12 {
        for (opt, failures) in [("a", 9), ("b", 1)] {
            let status = if seed < failures { "failed" } else { "done" };
            let _ = writeln!(lines, "{opt},{seed},1.{seed},{status}");
        }
    }
    sandbox.write("r.csv", &lines);
    let ended = sandbox.sweep(&["import", "r.csv"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let more = "\nclaims:\n  more: { difference: { metric: loss, of: { step: runs, opt: a }, to: { step: runs, opt: b } }, statistic: failure_rate, expect: { more_than: 0 } }\n";
    sandbox.write("r.yaml", &(sandbox.read("r.yaml") + more));
    let verdicts = claims(&sandbox, "r.yaml", "r");
    let more = of(&verdicts, "more");
    assert!(because(more).contains("paired (McNemar's exact test)"), "{more}");
    assert!((more["p"].as_f64().unwrap() - 2.0 / 256.0).abs() < 1e-9, "{more}");
}

/// Welch's test of 1, 2, 4 and 2.5, 4.5, 6.5 by `SciPy`.
#[test]
fn samples_that_nothing_pairs_are_compared_in_tables() {
    let rows: Vec<String> = [("a", 0), ("b", 10)]
        .into_iter()
        .flat_map(|(method, first)| {
            (first..first + 3).map(move |seed| format!("        - {{ method: {method}, seed: {seed} }}\n"))
        })
        .collect();
    let recipe = [
        "name: study\nsteps:\n  a:\n    uses: command\n    matrix:\n      include:\n",
        &rows.concat(),
        "    with: { run: 'set -- 1 2 4; test $M = b && set -- 2.5 4.5 6.5; shift $((SWEEP_SEED % 10)); echo value=$1', env: { M: '${{ matrix.method }}' } }\n",
        "tables: { pairs: { from: a, compare: { axis: method, baseline: a }, cells: [value] } }\n",
    ]
    .concat();
    let sandbox = Sandbox::with(&recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert!(
        ended.stdout.contains("of samples that are not paired (Welch) (n = 3)"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    let csv = sandbox.read("results/reports/study/tables/pairs.csv");
    let p: f64 = csv.lines().last().unwrap().split(',').nth(8).unwrap().parse().unwrap();
    assert!((p - 0.214_948_773_674_782_38).abs() < 1e-6, "{csv}");
}
