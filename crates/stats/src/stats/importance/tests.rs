//! Shares of variance, compared with Optuna's and with the decomposition by inclusion and exclusion.

use serde_json::Value as Json;

use super::{
    Factor,
    forest::{Cell, Side, shares_of},
    importance,
};
use crate::stats::Draws;

fn vectors() -> Json {
    serde_json::from_str(include_str!("../testdata/importance.json")).unwrap()
}

fn numbers(list: &Json) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[track_caller]
fn close(ours: f64, theirs: f64, within: f64) {
    assert!((ours - theirs).abs() <= within, "{ours} instead of {theirs}");
}

#[test]
fn full_factorials_are_decomposed_exactly() {
    for design in vectors()["factorials"].as_array().unwrap() {
        let rows: Vec<Vec<f64>> = design["rows"].as_array().unwrap().iter().map(numbers).collect();
        let of = |factor: usize| rows.iter().map(move |row| row[factor]);
        let factors: Vec<Factor> = (0..rows[0].len())
            .map(|factor| match factor % 2 {
                0 => Factor::Numbers(of(factor).collect()),
                _ => Factor::Categories(of(factor).map(|level| format!("{level}").parse().unwrap()).collect()),
            })
            .collect();
        let found = importance(&factors, &numbers(&design["values"])).unwrap();
        assert_eq!(found.fit, None, "exact");
        for ((ours, alone), whole) in found.shares.iter().zip(numbers(&design["alone"])).zip(numbers(&design["whole"]))
        {
            close(ours.alone, alone, 1e-12);
            close(ours.whole, whole, 1e-12);
        }
        close(found.interactions, 1.0 - numbers(&design["alone"]).iter().sum::<f64>(), 1e-12);
    }
}

#[test]
fn the_shares_of_a_tree_are_optunas() {
    let tree = vectors()["tree"].clone();
    let side = |ends: &Json| Side::Range(ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap());
    let sides = |list: &Json| list.as_array().unwrap().iter().map(side).collect::<Vec<_>>();
    let cells: Vec<Cell> = tree["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| Cell { sides: sides(&cell["sides"]), value: cell["value"].as_f64().unwrap() })
        .collect();
    let found = shares_of(&cells, &sides(&tree["bounds"])).unwrap();
    for ((ours, alone), whole) in found.iter().zip(numbers(&tree["alone"])).zip(numbers(&tree["whole"])) {
        close(ours.alone, alone, 1e-9);
        close(ours.whole, whole, 1e-9);
    }
}

/// Exact shares of the functions, and Optuna's shares of the same configurations, if these have no categories.
#[test]
fn a_forest_finds_the_shares_of_a_function() {
    let within = [(0.15, Some(0.12)), (0.06, Some(0.08)), (0.06, None)];
    for (design, (to_exact, to_optuna)) in vectors()["forests"].as_array().unwrap().iter().zip(within) {
        let rows = design["rows"].as_array().unwrap();
        let number = |name: &str| rows.iter().map(|row| row[name].as_f64().unwrap()).collect::<Vec<_>>();
        let words = ["relu", "gelu", "tanh"];
        let word = |row: &Json| words.iter().position(|word| row["act"] == *word);
        let mut names = vec!["lr", "dropout", "depth", "idle"];
        let mut factors: Vec<Factor> = names.iter().map(|name| Factor::Numbers(number(name))).collect();
        factors[0] = Factor::Numbers(number("lr").iter().map(|lr| lr.ln()).collect());
        if let Some(acts) = rows.iter().map(word).collect() {
            names.push("act");
            factors.push(Factor::Categories(acts));
        }
        let found = importance(&factors, &numbers(&design["values"])).unwrap();
        for (name, share) in names.iter().zip(&found.shares) {
            close(share.alone, design["exact"][name].as_f64().unwrap(), to_exact);
            if let Some(within) = to_optuna {
                close(share.alone, design["optuna"][name].as_f64().unwrap(), within);
            }
            assert!(share.whole >= share.alone - 1e-9 && share.whole <= 1.0, "{name}: {share:?}");
        }
        assert!(found.fit.unwrap() > 0.5, "{:?}", found.fit);
    }
}

#[test]
fn a_forest_of_noise_says_that_it_predicts_nothing() {
    let mut draws = Draws::new(3);
    let mut drawn = || (0..80).map(|_| draws.normal()).collect::<Vec<f64>>();
    let factors = [Factor::Numbers(drawn()), Factor::Numbers(drawn())];
    let found = importance(&factors, &drawn()).unwrap();
    assert!(found.fit.unwrap() < 0.1, "{found:?}");
}

#[test]
fn the_same_configurations_in_another_unit_have_the_same_shares() {
    let mut draws = Draws::new(5);
    let rows: Vec<[f64; 2]> = (0..40).map(|_| [draws.uniform(), draws.uniform()]).collect();
    let factors = [0, 1].map(|factor| Factor::Numbers(rows.iter().map(|row| row[factor]).collect()));
    let values: Vec<f64> = rows.iter().map(|row| row[0] + 3.0 * row[1] * row[1]).collect();
    let found = importance(&factors, &values).unwrap();
    let scaled = importance(&factors, &values.iter().map(|value| 2.0_f64.powi(900) * value).collect::<Vec<_>>());
    for (one, other) in found.shares.iter().zip(&scaled.unwrap().shares) {
        close(one.alone, other.alone, 1e-9);
    }
}

#[test]
fn what_cannot_be_decomposed_has_no_shares() {
    let ten = |of: &dyn Fn(usize) -> f64| (0..10).map(of).collect::<Vec<f64>>();
    let factor = Factor::Numbers(ten(&|index| index as f64));
    assert_eq!(importance(&[], &[1.0, 2.0]), None, "no factors");
    assert_eq!(importance(std::slice::from_ref(&factor), &ten(&|_| 0.3)), None, "equal values");
    assert_eq!(importance(std::slice::from_ref(&factor), &ten(&|index| 1.0 / index as f64)), None, "infinite");
    assert_eq!(importance(std::slice::from_ref(&factor), &[1.0]), None, "other numbers");
    let opposite = ten(&|index| if index % 2 == 0 { f64::MAX } else { -f64::MAX });
    let _ = importance(std::slice::from_ref(&factor), &opposite);
    let few = [Factor::Numbers(vec![1.0, 2.0, 3.0]), Factor::Numbers(vec![1.0, 1.0, 2.0])];
    assert_eq!(importance(&few, &[1.0, 2.0, 4.0]), None, "few");
    // One factor whose levels are all different is a full factorial.
    let all = importance(&[factor], &ten(&|index| index as f64)).unwrap();
    close(all.shares[0].alone, 1.0, 1e-12);
    // Many categories, and configurations that are there several times.
    let many = Factor::Categories((0..300).map(|row| row % 150).collect());
    let noise = Factor::Numbers((0..300).map(|row| f64::from(row % 7)).collect());
    let values: Vec<f64> = (0..300).map(|row| f64::from(row % 150)).collect();
    let found = importance(&[many, noise], &values).unwrap();
    assert!(found.shares[0].alone > 0.9, "{found:?}");
}
