//! Tensors that are probed together, gradients of several passes together, and passes in shorter formats.

use std::path::Path;

use serde_json::{Value, json};
use sweep_job::{Outcome, tasks::Precision};

use super::{
    Checkpointing, GptSubject, GradientSource, Inner, ProbeMode, Probing, Pruned, Storage, Subject, gpt, host, prune,
    run, settings, tiny,
};
use crate::common::{merged, relative_error};

fn one_by_one() -> Probing {
    Probing { mode: ProbeMode::Streaming, tolerance: 0.5, num_batches: 2, batch_size: 2, ..settings() }
}

fn pruned(settings: &Probing) -> Pruned {
    prune(settings, &mut gpt(settings))
}

#[test]
fn all_tensors_together_are_pruned_as_simultaneously() {
    let tensors = 14;
    for checkpointing in [Checkpointing::Off, Checkpointing::Segment1] {
        let by = |settings: &Probing| prune(settings, &mut gpt(settings).with_checkpointing(checkpointing));
        let simultaneous = by(&Probing { mode: ProbeMode::Simultaneous, ..one_by_one() });
        for parallel in [tensors, 1000] {
            for gradients in [GradientSource::Freeze, GradientSource::Extract] {
                let together = by(&Probing { parallel, gradients, ..one_by_one() });
                assert_eq!(together.gone, simultaneous.gone, "{parallel}, {gradients}");
                assert_eq!(together.passes, simultaneous.passes);
            }
        }
    }
    let alone = pruned(&one_by_one());
    assert_ne!(alone.gone, pruned(&Probing { parallel: tensors, ..one_by_one() }).gone, "it is another method");
}

#[test]
fn a_pass_for_several_tensors_gives_the_gradients_of_a_pass_for_each() {
    let settings = one_by_one();
    for checkpointing in [Checkpointing::Off, Checkpointing::Balanced, Checkpointing::Segment1, Checkpointing::Segment2]
    {
        let mut subject = gpt(&settings).with_checkpointing(checkpointing);
        for visited in [vec![3, 2], vec![13, 0, 7], vec![9, 10, 11, 12]] {
            let several = subject.gradients([1, 0], Some(&visited)).unwrap();
            assert_eq!(several.len(), subject.tensors().len());
            for (tensor, found) in several.into_iter().enumerate() {
                assert_eq!(found.is_some(), visited.contains(&tensor), "{checkpointing}: {tensor}");
                if let Some(found) = found {
                    let alone = subject.gradients([1, 0], Some(&[tensor])).unwrap()[tensor].take().unwrap();
                    let found = host(found);
                    assert!(found.iter().any(|number| *number != 0.0));
                    assert_eq!(found, host(alone), "{checkpointing}: {tensor}");
                }
            }
        }
    }
}

#[test]
fn a_visit_of_several_tensors_takes_the_passes_of_one() {
    // 14 tensors: four visits of up to four.
    for (parallel, visits) in [(1, 14), (2, 7), (4, 4), (14, 1)] {
        for (gradients, passes) in [
            (GradientSource::Freeze, 4 * visits),
            (GradientSource::Extract, 4 * visits),
            (GradientSource::Amortized, 2 * (1 + visits)),
        ] {
            let settings = Probing { mode: ProbeMode::LayerWise, parallel, gradients, ..one_by_one() };
            let found = pruned(&settings);
            assert_eq!(
                (found.passes, found.expected, found.choices),
                (passes, passes, visits),
                "{parallel}, {gradients}"
            );
        }
    }
    // Gradients of all of a visit are kept at the same time.
    let bytes = |parallel| pruned(&Probing { parallel, ..one_by_one() }).gradient_bytes;
    assert!(bytes(1) < bytes(4) && bytes(4) < bytes(14), "{} {} {}", bytes(1), bytes(4), bytes(14));
}

/// Differences between the gradients of the first calibration batch in two ways, relative to the largest number.
fn error(left: &mut dyn Subject<Inner>, right: &mut dyn Subject<Inner>, parts: usize) -> f64 {
    let expected = left.gradients([0, 0], None).unwrap();
    let mut sum: Vec<Vec<f32>> = Vec::new();
    for part in 0..parts {
        for (tensor, gradient) in right.gradients([0, part], None).unwrap().into_iter().enumerate() {
            let numbers = host(gradient.unwrap() / parts as f32);
            match sum.get_mut(tensor) {
                None => sum.push(numbers),
                Some(sum) => sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number),
            }
        }
    }
    let errors = expected.into_iter().zip(sum).map(|(expected, sum)| relative_error(&sum, &host(expected.unwrap())));
    errors.fold(0.0, f64::max)
}

#[test]
fn accumulated_gradients_are_those_of_a_larger_batch() {
    let large = Probing { batch_size: 6, ..one_by_one() };
    for parts in [2, 3, 6] {
        let small = Probing { batch_size: 6 / parts, grad_accumulation: parts, ..large.clone() };
        let mut accumulated = gpt(&small);
        assert_eq!((accumulated.batches(), accumulated.parts()), (2, parts));
        let found = error(&mut gpt(&large), &mut accumulated, parts);
        assert!(found < 1e-5, "{parts}: {found:.1e}");
        let found = error(&mut tiny(20, 3, 100, &large), &mut tiny(20, 3, 100, &small), parts);
        assert!(found < 1e-5, "{parts}: {found:.1e}");
        // Rounding decides about very few weights.
        let (one, several) = (pruned(&large), pruned(&small));
        assert_eq!(several.passes, one.passes * parts as u64);
        let (one, several) = (one.gone.concat(), several.gone.concat());
        let alike = one.iter().zip(&several).filter(|(one, several)| one == several).count();
        assert!(alike as f64 >= 0.999 * one.len() as f64, "{parts}: {alike} of {}", one.len());
    }
    // The largest gradient over single sequences is not that of their mean.
    let single = pruned(&Probing { batch_size: 1, num_batches: 12, ..one_by_one() }).gone;
    assert_ne!(single, pruned(&large).gone);
}

#[test]
fn shorter_formats_give_nearly_the_same_gradients() {
    let with = |precision| -> GptSubject<Inner> { gpt(&Probing { precision, ..one_by_one() }) };
    for (precision, most) in [(Precision::F16, 0.01), (Precision::Bf16, 0.06), (Precision::Mixed, 0.06)] {
        let found = error(&mut with(Precision::F32), &mut with(precision), 1);
        assert!(found > 0.0 && found < most, "{precision}: {found:.1e}");
        let decided = pruned(&Probing { precision, grad_storage: Storage::F32, ..one_by_one() });
        let expected = pruned(&one_by_one()).gone.concat();
        let alike = decided.gone.concat().iter().zip(&expected).filter(|(left, right)| left == right).count();
        assert!(alike as f64 >= 0.9 * expected.len() as f64, "{precision}: {alike} of {}", expected.len());
    }
}

fn task(more: &Value, dir: &Path) -> Outcome {
    let small = json!({
        "n_layer": 2, "n_head": 2, "d_model": 16, "block_size": 16, "data": "stories", "sparsity": 0.5,
        "tolerance": 0.5, "eval_batches": 2, "eval_batch_size": 2, "baseline": false,
    });
    run("gradprobe", merged(small, more), dir).unwrap()
}

#[test]
fn a_pass_that_overflows_is_repeated_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let half = task(&json!({"mode": "layer_wise", "precision": "f16"}), dir.path());
    assert_eq!(half.metrics["passes"].value, 20.0);
    let repeated = half.metrics["passes.repeated"].value;
    assert!((0.0..20.0).contains(&repeated), "{repeated}");
    let single = task(&json!({"mode": "layer_wise"}), dir.path());
    assert_eq!(single.facts["absent.passes.repeated"], "only half precision needs to repeat passes");
    let of = |outcome: &Outcome, name: &str| outcome.metrics[name].value;
    assert!(of(&single, "time.passes") <= of(&single, "time.prune"), "passes are a part of the pruning");
    assert!(of(&single, "time.passes") >= of(&single, "time.pass"));
}

#[test]
fn a_trace_has_every_visit_and_its_parts() {
    for (more, visits, passes) in [
        (json!({"mode": "layer_wise", "num_batches": 2}), 10, 40),
        (json!({"mode": "layer_wise", "num_batches": 2, "parallel": 4}), 3, 12),
        (json!({"mode": "simultaneous", "num_batches": 2}), 4, 4),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let outcome = task(&merged(more.clone(), &json!({"trace": true})), dir.path());
        let text = std::fs::read(dir.path().join(&outcome.artifacts["trace"])).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        let spans = |category: &str, name: &str| {
            let events = trace["traceEvents"].as_array().unwrap().iter();
            events.filter(|event| event["cat"] == category && event["name"].as_str().unwrap().contains(name)).count()
        };
        assert_eq!(spans("step", ""), visits, "{more}");
        assert_eq!((spans("host", "forward"), spans("host", "backward")), (passes, passes), "{more}");
        assert_eq!(spans("step", "h.1.mlp.c_proj.weight") > 0, visits != 4, "{more}: visits have names");
    }
}
