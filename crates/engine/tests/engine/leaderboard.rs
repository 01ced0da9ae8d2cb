//! The pairwise decisions of a public leaderboard: its own rule, and claims of a recipe about the same losses.
//! `testdata/leaderboard/README.md` has the origin of the numbers.

use std::collections::BTreeMap;

use serde_json::Value;
use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::sandbox::Sandbox;

const RESULTS: &str = include_str!("testdata/leaderboard/results.csv");
const LOSSES: &str = include_str!("testdata/leaderboard/losses.csv");
/// Loss of a step: 0.0045 for a hundred, says the leaderboard.
const LOSS_OF_STEP: f64 = 0.0045 / 100.0;
/// Standard deviation of the loss that the leaderboard assumes.
const SD: f64 = 0.0013;
/// `(loss difference + worth of the steps) / √(1/n + 1/m)` of a significant result.
const SIGNIFICANT: f64 = 0.004;

/// A result of the leaderboard.
struct Standing {
    steps: f64,
    /// Mean loss as it is published, and from the log files.
    loss: [f64; 2],
    seeds: usize,
    is_record: bool,
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}

fn standings() -> BTreeMap<usize, Standing> {
    let mut losses: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for row in rows(LOSSES) {
        losses.entry(row[0].parse().unwrap()).or_default().push(row[3].parse().unwrap());
    }
    let standing = |row: Vec<&str>| {
        let number: usize = row[0].parse().unwrap();
        let logged = &losses[&number];
        let (published, mean): (f64, f64) = (row[2].parse().unwrap(), logged.iter().sum::<f64>() / logged.len() as f64);
        let seeds = row[3].parse().unwrap();
        assert_eq!(logged.len(), seeds, "result {number}");
        assert!((mean - published).abs() < 2e-4, "result {number}: {mean}, published {published}");
        let steps = row[1].parse().unwrap();
        (number, Standing { steps, loss: [published, mean], seeds, is_record: row[4] == "1" })
    };
    rows(RESULTS).map(standing).collect()
}

/// The left side of the leaderboard's rule for a result and the one before it; `logged` takes the losses of the log files.
fn statistic(old: &Standing, new: &Standing, logged: bool) -> f64 {
    let loss = old.loss[usize::from(logged)] - new.loss[usize::from(logged)];
    let error = (1.0 / old.seeds as f64 + 1.0 / new.seeds as f64).sqrt();
    (loss + LOSS_OF_STEP * (old.steps - new.steps)) / error
}

/// The records, each with the one before it.
fn successions(all: &BTreeMap<usize, Standing>) -> Vec<[usize; 2]> {
    let records: Vec<usize> = all.iter().filter(|(_, one)| one.is_record).map(|(number, _)| *number).collect();
    records.windows(2).map(|pair| [pair[0], pair[1]]).collect()
}

#[test]
fn the_rule_gives_the_published_p_values() {
    let all = standings();
    assert_eq!(all.len(), 46);
    let normal = Normal::new(0.0, 1.0).unwrap();
    // The last one was computed from the log files, the others from rounded means.
    for (old, new, logged, p) in [
        (9, 11, false, 0.69),
        (11, 13, false, 0.099),
        (8, 13, false, 0.029),
        (14, 16, false, 0.34),
        (30, 34, true, 0.168),
    ] {
        let ours = normal.sf(statistic(&all[&old], &all[&new], logged) / SD);
        assert!((ours - p).abs() < if p < 0.2 { 6e-4 } else { 6e-3 }, "{new} against {old}: {ours}, published {p}");
    }
    let tuned = statistic(&all[&6], &all[&12], false);
    assert!((tuned - 0.00648).abs() < 1e-5, "published for 12 against 6: 0.00648, not {tuned}");
}

/// A recipe with the losses of these results, and a claim for each pair that the second one is better.
fn recipe(pairs: &[[usize; 2]]) -> String {
    let results: Vec<usize> = pairs.iter().flatten().copied().collect();
    let logged = rows(LOSSES).filter(|row| results.contains(&row[0].parse().unwrap()));
    let points: Vec<[&str; 2]> = logged.map(|row| [row[0], row[2]]).collect();
    let [numbers, seeds] = [0, 1].map(|index| points.iter().map(|point| point[index]).collect::<Vec<_>>().join(", "));
    let claims = pairs.iter().map(|[old, new]| {
        format!(
            "  better-{new}-{old}:\n    says: Result {new} is better than {old}.\n    pair: false\n    difference: {{ metric: cost, of: {{ step: runs, result: {old} }}, to: {{ step: runs, result: {new} }} }}\n    expect: {{ more_than: 0 }}\n"
        )
    });
    format!(
        "steps:\n  runs:\n    uses: command\n    matrix: {{ zip: {{ result: [{numbers}], seed: [{seeds}] }} }}\n    with:\n      run: |\n        awk -F, -v result=$RESULT -v seed=$SWEEP_SEED '$1 == result && $3 == seed {{ printf \"cost=%.8f\\n\", $4 + {LOSS_OF_STEP} * $2 }}' losses.csv\n      inputs: [losses.csv]\n      env: {{ RESULT: '${{{{ matrix.result }}}}' }}\nmetrics: {{ cost: {{ better: min }} }}\nclaims:\n{}",
        claims.collect::<String>()
    )
}

#[test]
fn claims_find_the_records_that_are_not_better() {
    let all = standings();
    let mut pairs = successions(&all);
    assert_eq!(pairs.len(), 19);
    pairs.push([6, 12]);
    let sandbox = Sandbox::with(&recipe(&pairs));
    sandbox.write("losses.csv", LOSSES);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let verdicts: Vec<Value> = serde_json::from_str(&sandbox.read("results/reports/recipe/claims.json")).unwrap();
    let supported = |[old, new]: &[usize; 2]| {
        let id = format!("better-{new}-{old}");
        verdicts.iter().find(|verdict| verdict["claim"] == *id).unwrap()["state"] == "supported"
    };
    let decisions: BTreeMap<usize, [bool; 2]> = pairs
        .iter()
        .map(|pair| {
            let rule = statistic(&all[&pair[0]], &all[&pair[1]], false) >= SIGNIFICANT;
            (pair[1], [rule, supported(pair)])
        })
        .collect();
    // The four that the leaderboard names.
    for named in [11, 13, 16, 34] {
        assert_eq!(decisions[&named], [false, false], "result {named}");
    }
    let not_better = decisions.values().filter(|[rule, _]| !rule).count();
    assert_eq!(not_better, 11, "records that are not better than the one before by the rule");
    // Result 3 has one seed, from which claims infer nothing. Results 43 and 46 have p = 0.0405 and 0.0036 (Welch, by `SciPy`),
    // and the leaderboard wants 0.001.
    let differ: Vec<usize> = decisions.iter().filter(|(_, [rule, ours])| rule != ours).map(|(new, _)| *new).collect();
    assert_eq!(differ, [5, 43, 46]);
}
