//! Sides and rows that differ in their numbers of seeds or in their spread, and values near the limits of numbers. Reference values are
//! those of `SciPy` 1.17.1.

use std::fmt::Write as _;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Imports a table and reports the tables and claims of a recipe: the text, and the verdicts.
fn reported(runs: &str, metrics: &[&str], rest: &str) -> (String, Vec<Value>) {
    let sandbox = Sandbox::new();
    sandbox.write("r.csv", runs);
    let options = metrics.iter().flat_map(|metric| ["--metric", metric]);
    let ended = sandbox.sweep(&["import", "csv", "r.csv"].into_iter().chain(options).collect::<Vec<_>>());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    sandbox.write("s.yaml", &format!("name: s\nextends: r.runs.yaml\n{rest}"));
    let ended = sandbox.sweep(&["run", "s.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let verdicts = sandbox.path("results/reports/s/claims.json");
    let verdicts = if verdicts.exists() { sandbox.read("results/reports/s/claims.json") } else { "[]".to_owned() };
    (ended.stdout, serde_json::from_str(&verdicts).unwrap())
}

/// A table of runs: the values of each row in the order of the seeds.
fn runs(rows: &[(&str, &[f64])]) -> String {
    let mut table = "row,seed,m\n".to_owned();
    for (name, values) in rows {
        for (seed, value) in values.iter().enumerate() {
            writeln!(table, "{name},{seed},{value:?}").unwrap();
        }
    }
    table
}

fn because<'v>(verdicts: &'v [Value], claim: &str) -> &'v str {
    let verdict = verdicts.iter().find(|verdict| verdict["claim"] == claim).unwrap();
    verdict["because"].as_str().unwrap()
}

fn claim(name: &str, how: &str) -> String {
    format!("  {name}: {{ {how} }}\n")
}

fn difference(name: &str, of: &str, to: &str, more: &str) -> String {
    let sides = format!("of: {{ step: runs, row: {of} }}, to: {{ step: runs, row: {to} }}");
    claim(name, &format!("difference: {{ metric: m, {sides} }}, expect: {{ more_than: 0 }}{more}"))
}

/// The interval is that of `ttest_rel` over the five common seeds; Welch's test of five against six values has −8.6 to 10.9.
#[test]
fn a_further_seed_of_one_side_leaves_the_pairs_of_the_others() {
    let (a, b) = ([1.0, 6.0, 2.0, 8.0, 3.0], [1.9, 7.0, 2.9, 9.1, 3.8, 20.0]);
    let rest = format!(
        "metrics: {{ m: {{ better: max }} }}\ntables:\n  r: {{ from: runs, rows: [row], cells: [m] }}\n  c: {{ from: runs, compare: {{ axis: row, baseline: a }}, cells: [m] }}\nclaims:\n{}{}  o: {{ order: {{ metric: m, step: runs, axis: row, ascending: [a, b] }} }}\n",
        difference("d", "b", "a", ""),
        difference("i", "b", "a", ", pair: false"),
    );
    let (said, verdicts) = reported(&runs(&[("a", &a), ("b", &b)]), &["m"], &rest);
    let left_out = "1 job of `b` left out: the other side lacks seed 5";
    assert_eq!(verdicts[0]["state"], "supported", "{verdicts:?}");
    assert!(because(&verdicts, "d").contains("5 pairs") && because(&verdicts, "d").contains(left_out), "{verdicts:?}");
    let [low, high] = [0, 1].map(|end| verdicts[0]["interval"][end].as_f64().unwrap());
    assert!((low - 0.798_429).abs() < 1e-5 && (high - 1.081_571).abs() < 1e-5, "{low} {high}");
    assert_eq!(verdicts[1]["state"], "undecided", "{verdicts:?}");
    assert!(because(&verdicts, "i").contains("6 against 5, not paired"), "{verdicts:?}");
    assert!(because(&verdicts, "o").contains(left_out) && verdicts[2]["state"] == "supported", "{verdicts:?}");
    assert!(said.contains("differences use the seeds that both sides have"), "{said}");
    assert!(said.contains("0.94 ± 0.15 (p < 0.001)"), "{said}");
}

/// Too few common seeds, or other settings than seeds without a partner: the sides stay unpaired.
#[test]
fn sides_with_few_common_seeds_are_not_paired() {
    let few = "row,seed,m\na,0,1\na,1,2\na,2,4\nb,2,3\nb,3,4\nb,4,6\n";
    let rest = format!("claims:\n{}", difference("d", "b", "a", ""));
    let (_, verdicts) = reported(few, &["m"], &rest);
    assert!(because(&verdicts, "d").contains("3 against 3, not paired"), "{verdicts:?}");
}

/// The seed has no effect on two rows, whose zero deviations are no evidence about the others. Against 7.5, the own test of `far` with the
/// range of four rows has p = 0.123; the common error of all rows would give 0.006.
#[test]
fn rows_without_an_effect_of_the_seed_do_not_add_to_the_common_error() {
    let far = [4.0, 3.4, 3.1, 7.1];
    let rows: [(&str, &[f64]); 4] =
        [("far", &far), ("near", &[6.9, 5.0, 6.4, 7.7]), ("one", &[7.5; 4]), ("two", &[7.4; 4])];
    let rest = "metrics: { m: { better: max } }\ntables:\n  t: { from: runs, rows: [row], cells: [m] }\n  p: { from: runs, compare: { axis: row, baseline: one, error: pooled }, cells: [m] }\n";
    let (said, _) = reported(&runs(&rows), &["m"], rest);
    assert!(!said.contains('◀'), "{said}");
    assert!(said.contains("rows on which the seed has no effect count once"), "{said}");
    assert!(
        said.contains("the seed has no effect on some of the values, so each comparison has its own error"),
        "{said}"
    );
    // Far enough for the own test: p = 0.0008.
    let (said, _) = reported(&runs(&[("far", &[1.0, 1.1, 0.9, 1.0]), rows[1], rows[2], rows[3]]), &["m"], rest);
    assert!(said.contains("7.50ᵃ ◀") && said.contains("6.5 ± 1.9 ≈"), "{said}");
}

#[test]
fn values_near_the_limits_of_numbers_have_means_and_reasons() {
    let rows: [(&str, &[f64]); 3] = [
        ("huge", &[1e308, 1.5e308, 1.7e308]),
        ("tiny", &[1e-200, 2e-200, 3e-200]),
        ("whole", &[1e15 + 1.0, 1e15 + 2.0, 1e15 + 4.0]),
    ];
    let (said, _) = reported(&runs(&rows), &["m"], "tables:\n  t: { from: runs, rows: [row], cells: [m] }\n");
    assert!(!said.contains("inf") && !said.contains("all values are equal"), "{said}");
    assert!(said.contains("1.40e308") && said.contains("the spread of the values is too large for a number"), "{said}");
    assert!(said.contains("2.0e-200 ± 2.5e-200"), "{said}");
    // Two axes beside the seed: the error of settings that share seeds.
    let mut grid = "a,b,seed,m\n".to_owned();
    for (index, setting) in ["x,1", "x,2", "y,1", "y,2"].into_iter().enumerate() {
        for seed in 0..3_i32 {
            let value = 1e300 * (1.0 + f64::from(seed) + 0.1 * index as f64);
            writeln!(grid, "{setting},{seed},{value:e}").unwrap();
        }
    }
    let (said, _) = reported(&grid, &["m"], "tables:\n  t: { from: runs, rows: [a], cells: [m] }\n");
    assert!(said.contains("e300"), "{said}");
}

#[test]
fn reasons_and_verdicts_name_the_values_that_are_equal() {
    let rows: [(&str, &[f64]); 6] = [
        ("line", &[1.0, 2.0, 3.0, 4.5]),
        ("moved", &[2.0, 3.0, 4.0, 5.5]),
        ("const", &[1.0; 4]),
        ("other", &[2.0; 4]),
        ("same", &[1.0, 2.0, 3.0, 4.5]),
        ("near", &[1.000_000_000_000_001, 1.000_000_000_000_002, 1.000_000_000_000_004, 1.0]),
    ];
    let middle = [1.0, 5.0, 5.0, 5.0, 5.0, 100.0];
    let value = |name: &str, row: &str, more: &str| {
        claim(
            name,
            &format!("value: {{ metric: m, of: {{ step: runs, row: {row} }} }}, expect: {{ less_than: 50 }}, {more}"),
        )
    };
    let rest = format!(
        "tables:\n  t: {{ from: runs, where: {{ row: [const, near] }}, rows: [row], cells: [m] }}\n  c: {{ from: runs, compare: {{ axis: row, pairs: [[moved, line], [other, line], [near, line], [line, near]] }}, cells: [m] }}\nclaims:\n{}{}{}{}{}",
        difference("moved", "moved", "line", ""),
        difference("same", "same", "line", ""),
        difference("again", "other", "line", ", pair: false"),
        value("ninety-nine", "middle", "statistic: quantile, q: 0.99"),
        value("middle", "middle", "statistic: iqm"),
    );
    let all: Vec<(&str, &[f64])> = rows.into_iter().chain([("middle", &middle[..])]).collect();
    let (said, verdicts) = reported(&runs(&all), &["m"], &rest);
    assert!(because(&verdicts, "moved").contains("all differences are equal"), "{verdicts:?}");
    assert!(because(&verdicts, "same").contains("`same` and `line` have the same measurements"), "{verdicts:?}");
    assert!(
        because(&verdicts, "again").contains("the seed has no effect")
            || because(&verdicts, "again").contains("all values of `other` are equal"),
        "{verdicts:?}"
    );
    assert!(because(&verdicts, "ninety-nine").contains("a quantile at 0.99 needs 368"), "{verdicts:?}");
    assert!(because(&verdicts, "middle").contains("the values of the middle half are equal"), "{verdicts:?}");
    for reason in ["no interval: the seed has no effect: ", "no interval: the seed has no effect beyond rounding: "] {
        assert!(said.contains(reason), "{reason} {said}");
    }
    // One pair has equal differences and no test.
    assert!(said.contains("p is corrected for 3 comparisons (Holm)"), "{said}");
}

#[test]
fn times_of_imported_runs_are_not_compared() {
    let runs = "row,seed,time_s\na,0,1.0\na,1,1.1\na,2,1.05\na,3,1.02\nb,0,2.0\nb,1,2.1\nb,2,2.05\nb,3,2.0\n";
    let table = "tables:\n  t: { from: runs, rows: [row], cells: [time_s]CONDITIONS }\n";
    let claim = "claims:\n  slow: { difference: { metric: time_s, of: { step: runs, row: b }, to: { step: runs, row: a } }, expect: { more_than: 0 }CONDITIONS }\n  short: { value: { metric: time_s, of: { step: runs, row: a } }, expect: { less_than: 9 } }\n";
    let all = format!("metrics: {{ time_s: {{ unit: s, better: min }} }}\n{table}{claim}");
    let unknown = "the machine, the load and the order of 8 imported runs are unknown";
    let (said, verdicts) = reported(runs, &["time_s"], &all.replace("CONDITIONS", ""));
    assert!(verdicts[0]["state"] == "undecided" && because(&verdicts, "slow").contains(unknown), "{verdicts:?}");
    assert!(because(&verdicts, "short").contains("of 4 imported runs are unknown"), "{verdicts:?}");
    assert!(!said.contains('◀') && said.contains(unknown), "{said}");
    let (said, verdicts) = reported(runs, &["time_s"], &all.replace("CONDITIONS", ", conditions: any"));
    assert!(verdicts[0]["state"] == "supported" && said.contains('◀'), "{verdicts:?} {said}");
}

#[test]
fn a_table_of_single_jobs_has_no_note_about_intervals() {
    let note = "no interval: a variance cannot be estimated from one value";
    let table = "tables:\n  t: { from: runs, rows: [row, seed], cells: [m] }\n";
    let (said, _) = reported(&runs(&[("a", &[1.0, 2.0]), ("b", &[3.0])]), &["m"], table);
    assert!(!said.contains(note), "{said}");
    let table = "tables:\n  t: { from: runs, rows: [row], cells: [m] }\n";
    let (said, _) = reported(&runs(&[("a", &[1.0, 2.0]), ("b", &[3.0])]), &["m"], table);
    assert!(said.contains(note), "{said}");
}

#[test]
fn more_seeds_narrow_an_interval_of_seeds() {
    let rest = "claims:\n  typical: { value: { metric: m, of: { step: runs } }, expect: { less_than: 3.1 }, statistic: iqm }\n";
    let (_, verdicts) = reported(&runs(&[("a", &[1.0, 2.0, 3.0, 4.0, 5.5])]), &["m"], rest);
    assert!(because(&verdicts, "typical").contains("more seeds would make the interval shorter"), "{verdicts:?}");
}
