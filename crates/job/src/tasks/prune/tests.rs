//! Schedules, and settings that contradict each other.

use super::*;
use crate::{Conflict, Task, Value, Values};

fn conflicts(given: &[(&str, Value)]) -> Vec<Conflict> {
    let info = Task::info("train").unwrap();
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    info.conflicts(&info.complete(given.collect::<Values>()))
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn cubic_and_linear_checkpoints_of_the_reference() {
    // ratio-ablation, section 8.4: target .5, warm-up 1000, ramp end 3000, at step 2000.
    let mut prune = Prune {
        prune_warmup: Some(1000),
        prune_ramp_end: Some(3000),
        prune: PruneMethod::Magnitude,
        ..Prune::default()
    };
    assert_eq!(prune.target_at(2000, 10_400), 0.0625);
    prune.prune_schedule = Schedule::Linear;
    assert_eq!(prune.target_at(2000, 10_400), 0.25);
    assert_eq!(prune.target_at(500, 10_400), 0.0);
    assert_eq!(prune.target_at(9000, 10_400), 0.5);
}

#[test]
fn masks_are_chosen_at_multiples_after_the_warm_up() {
    let prune = Prune { prune: PruneMethod::Bitter0, prune_warmup: Some(12), prune_every: 5, ..Prune::default() };
    let found: Vec<usize> = (0..31).filter(|iter| prune.updates_at(*iter, 100)).collect();
    assert_eq!(found, [15, 20, 25, 30]);
    assert!((0..31).all(|iter| !Prune::default().updates_at(iter, 100)), "nothing is pruned");
}

#[test]
fn a_ramp_that_never_ends_is_a_conflict() {
    let given = |iters| [("prune", text("magnitude")), ("iters", Value::Int(iters)), ("prune_every", Value::Int(50))];
    assert_eq!(conflicts(&given(60)).len(), 0, "iteration 50 is after the ramp's end at 36");
    assert_eq!(conflicts(&given(40)).len(), 1, "only iteration 0 is a multiple of 50");
}

#[test]
fn a_pattern_determines_the_sparsity_and_excludes_thresholds() {
    let pattern = |more: &[(&str, Value)]| {
        conflicts(&[&[("prune", text("magnitude")), ("prune_pattern", text("1:4"))], more].concat())
    };
    assert_eq!(pattern(&[]), []);
    assert_eq!(pattern(&[("sparsity", Value::Float(0.75))]), [], "the pattern's own");
    let found = pattern(&[("sparsity", Value::Float(0.6)), ("threshold", text("sample"))]);
    let params: Vec<_> = found.iter().map(|conflict| conflict.params[0]).collect();
    assert_eq!(params, ["sparsity", "threshold"]);
    assert_eq!(conflicts(&[("prune_pattern", text("2:4"))]).len(), 1, "nothing is pruned");
    let prune = Prune { prune_pattern: PrunePattern::OneOf4, sparsity: 0.5, ..Prune::default() };
    assert_eq!(prune.target(), 0.75);
}

#[test]
fn wanda_chooses_output_by_output_and_needs_no_threshold() {
    let wanda = |more: &[(&str, Value)]| {
        let found = conflicts(&[&[("prune", text("wanda"))], more].concat());
        found.into_iter().map(|conflict| conflict.params[0]).collect::<Vec<_>>()
    };
    assert_eq!(wanda(&[("calibration_batches", Value::Int(8)), ("prune_pattern", text("2:4"))]), [""; 0]);
    assert_eq!(
        wanda(&[("threshold", text("sample")), ("score_precision", text("f16"))]),
        ["threshold", "score_precision"]
    );
    assert_eq!(wanda(&[("prune_tied_head", Value::Bool(true))]), ["prune_tied_head"]);
    assert_eq!(wanda(&[("prune_tied_head", Value::Bool(true)), ("prune_pattern", text("2:4"))]), ["prune_tied_head"]);
    let found = conflicts(&[("prune", text("magnitude")), ("calibration_batches", Value::Int(8))]);
    assert_eq!(found[0].message, "`calibration_batches` has no effect with `prune: magnitude`");
}

#[test]
fn snip_prunes_once_and_has_no_ramp() {
    let snip = |more: &[(&str, Value)]| {
        let found = conflicts(&[&[("prune", text("snip"))], more].concat());
        found.into_iter().map(|conflict| conflict.params[0]).collect::<Vec<_>>()
    };
    assert_eq!(snip(&[("calibration_batches", Value::Int(8)), ("prune_pattern", text("2:4"))]), [""; 0]);
    assert_eq!(snip(&[("prune_tied_head", Value::Bool(true)), ("threshold", text("sample"))]), [""; 0]);
    assert_eq!(
        snip(&[("prune_warmup", Value::Int(0)), ("prune_ramp_end", Value::Int(9))]),
        ["prune_warmup", "prune_ramp_end"]
    );
    assert_eq!(
        snip(&[("prune_every", Value::Int(5)), ("prune_schedule", text("linear"))]),
        ["prune_schedule", "prune_every"]
    );
    assert_eq!(snip(&[("score_precision", text("f16"))]), ["score_precision"]);
    let found = conflicts(&[("prune", text("snip")), ("prune_every", Value::Int(5))]);
    assert_eq!(
        found[0].message,
        "`prune_every` has no effect with `prune: snip`, which chooses the mask once, before the first iteration, in \
         single precision"
    );
    let prune = Prune { prune: PruneMethod::Snip, ..Prune::default() };
    assert!((0..100).all(|iter| !prune.updates_at(iter, 100)));
    assert_eq!(prune.first_update(100), Some(0));
}

#[test]
fn rigl_replaces_a_share_that_falls_as_half_a_cosine() {
    let rigl = |more: &[(&str, Value)]| {
        let found = conflicts(&[&[("prune", text("rigl"))], more].concat());
        found.into_iter().map(|conflict| conflict.params[0]).collect::<Vec<_>>()
    };
    assert_eq!(rigl(&[("prune_every", Value::Int(5)), ("prune_ramp_end", Value::Int(150))]), [""; 0]);
    assert_eq!(
        rigl(&[("prune_warmup", Value::Int(0)), ("prune_schedule", text("linear"))]),
        ["prune_warmup", "prune_schedule"]
    );
    assert_eq!(
        rigl(&[("threshold", text("sample")), ("score_precision", text("f16"))]),
        ["score_precision", "threshold"]
    );
    assert_eq!(rigl(&[("prune_pattern", text("2:4"))]), ["prune_pattern"]);
    assert_eq!(rigl(&[("calibration_batches", Value::Int(8))]), ["calibration_batches"]);
    assert_eq!(
        rigl(&[("iters", Value::Int(10)), ("prune_ramp_end", Value::Int(30))]),
        ["prune_every"],
        "the end is before"
    );
    assert_eq!(rigl(&[("iters", Value::Int(15))]), ["prune_every"], "only iteration 10, which is after 9");
    assert_eq!(conflicts(&[("prune", text("rigl")), ("mask", text("network"))])[0].params, ["mask", "prune"]);
    let prune = Prune { prune: PruneMethod::Rigl, prune_ramp_end: Some(60), ..Prune::default() };
    let found: Vec<(usize, f64)> = (0..100).filter_map(|iter| Some((iter, prune.replaces_at(iter, 100)?))).collect();
    assert_eq!(found.iter().map(|(iter, _)| *iter).collect::<Vec<_>>(), [10, 20, 30, 40, 50]);
    for (found, expected) in
        found.into_iter().zip([0.279_903_810_567_665_8, 0.225, 0.15, 0.075, 0.020_096_189_432_334_2])
    {
        assert!((found.1 - expected).abs() < 1e-12, "{found:?}");
    }
    assert!((0..100).all(|iter| !prune.updates_at(iter, 100)));
    assert_eq!(prune.first_update(100), Some(0));
}

#[test]
fn an_epsilon_that_16_bits_cannot_hold_is_refused_where_it_counts() {
    let f16 = |prune: &str, epsilon| {
        conflicts(&[("prune", text(prune)), ("score_precision", text("f16")), ("score_epsilon", Value::Float(epsilon))])
    };
    for variant in [0, 3, 4, 5, 6, 7, 8, 9] {
        let found = f16(&format!("bitter{variant}"), 1e-8);
        assert_eq!(found.len(), 1, "bitter{variant}");
        assert_eq!(found[0].advice, "write `score_epsilon: 1e-5`, or compute scores with `score_precision: f32`");
        assert!(found[0].message.starts_with("`score_epsilon: 1e-8` is 0 in half precision"), "{}", found[0].message);
        assert_eq!(f16(&format!("bitter{variant}"), 1e-5), []);
    }
    for without_epsilon in ["none", "magnitude", "movement", "bitter1", "bitter2"] {
        assert_eq!(f16(without_epsilon, 1e-8), []);
    }
    assert_eq!(conflicts(&[("prune", text("bitter7"))]), [], "in single precision 1e-8 is not 0");
}
