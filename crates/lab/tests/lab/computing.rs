//! Computation settings change the cost of a training, but not its result.
//!
//! The backend's generator is one per process, so the tests that use dropout take turns.

use std::{path::Path, sync::Mutex};

use crate::common::{Train, host, merged, relative_error, run, task};
use burn::{
    backend::{Flex, flex::FlexDevice},
    tensor::{Int, Tensor, TensorData},
};
use serde_json::{Value, json};
use sweep_job::{
    Outcome, Task,
    tasks::{Checkpointing, Computing, Precision},
};
use sweep_lab::{
    model::{Gpt, GptDims},
    optim::gradient::{Dropout, Forward},
};

/// Held while the backend's generator must not be disturbed.
static GENERATOR: Mutex<()> = Mutex::new(());

const SEGMENTS: [Checkpointing; 3] = [Checkpointing::Segment1, Checkpointing::Segment2, Checkpointing::Segment3];

/// A network of five blocks of this step of the ablation.
fn network(ablation: &str) -> Gpt<Train> {
    let given = json!({"n_layer": 5, "n_head": 2, "d_model": 16, "block_size": 12, "ablation": ablation});
    let Task::Train(train) = task("train", given) else { panic!("a training") };
    Gpt::random(GptDims::new(&train.model, &train.architecture, 40).unwrap(), 3, &FlexDevice).unwrap()
}

fn tokens(shift: i32) -> Tensor<Flex, 2, Int> {
    let ids: Vec<i32> = (0..3 * 12).map(|index| (index * index + 7 * shift) % 40).collect();
    Tensor::from_data(TensorData::new(ids, [3, 12]), &FlexDevice)
}

/// The loss and the gradients, by parameter, times 2.
fn gradients(network: &Gpt<Train>, computing: &Computing, p: f64) -> (Vec<f32>, Vec<Option<Vec<f32>>>) {
    let dropout = Dropout { p, seed: 5, at: [1, 0] };
    let forward = Forward::<Flex>::new(network, tokens(0), tokens(1), computing, dropout);
    let loss = host(forward.loss());
    (loss, forward.backward(2.0).into_iter().map(|gradient| gradient.map(host)).collect())
}

fn with(checkpointing: Checkpointing) -> Computing {
    Computing { checkpointing, ..Computing::default() }
}

#[test]
fn segments_and_balanced_give_the_gradients_of_the_plain_backward_pass() {
    // GPT-2; a gate and keys that are handed from block to block; folded attention with a reciprocal MLP.
    for ablation in ["0", "3", "7", "12", "18", "V5", "V17"] {
        let network = network(ablation);
        let (loss, expected) = gradients(&network, &with(Checkpointing::Off), 0.0);
        for checkpointing in SEGMENTS.into_iter().chain([Checkpointing::Balanced]) {
            let (found_loss, found) = gradients(&network, &with(checkpointing), 0.0);
            assert_eq!(loss, found_loss, "{ablation} {checkpointing}");
            if ablation == "0" && checkpointing != Checkpointing::Balanced {
                assert_eq!(expected, found, "{checkpointing}: the same bits");
            }
            for (index, pair) in expected.iter().zip(&found).enumerate() {
                match pair {
                    (Some(expected), Some(found)) => {
                        let error = relative_error(found, expected);
                        assert!(error < 1e-4, "{ablation} {checkpointing}: parameter {index} is off by {error}");
                    }
                    // If nothing depends on a parameter, one way may have no gradient of it, and another a gradient of 0.
                    (None, Some(zeros)) | (Some(zeros), None) => {
                        assert!(zeros.iter().all(|number| *number == 0.0), "{ablation} {checkpointing}: {index}");
                    }
                    (None, None) => {}
                }
            }
        }
    }
}

#[test]
fn segments_draw_the_same_dropout_twice() {
    let _alone = GENERATOR.lock().unwrap();
    let network = network("0");
    let [(loss, first), (again_loss, again)] =
        [(); 2].map(|()| gradients(&network, &with(Checkpointing::Segment2), 0.3));
    assert_eq!((&loss, &first), (&again_loss, &again));
    // Along its own gradient the loss falls at the rate that the gradient predicts, unless the two passes differ.
    let gradient = first.iter().flatten().flatten();
    let square: f64 = gradient.map(|number| f64::from(*number / 2.0).powi(2)).sum();
    let step = 1e-3;
    let mut index = 0;
    let moved = sweep_lab::model::map_values::<Train, _>(network, &mut |_, weight| {
        let gradient = first[index].clone();
        index += 1;
        match gradient {
            Some(gradient) => weight - Tensor::<Flex, 1>::from_floats(&gradient[..], &FlexDevice) * (step / 2.0),
            None => weight,
        }
    });
    let (after, _) = gradients(&moved, &with(Checkpointing::Segment2), 0.3);
    let fallen = f64::from(loss[0] - after[0]);
    assert!((fallen / (step * square) - 1.0).abs() < 0.1, "fell by {fallen}, expected {}", step * square);
}

fn small(more: &Value) -> Outcome {
    let base = json!({
        "n_layer": 4, "n_head": 2, "d_model": 16, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 12,
        "log_every": 1, "dropout": 0, "lr": 1e-2, "warmup_iters": 2, "prune": "bitter7", "prune_every": 3,
    });
    let dir = tempfile::tempdir().unwrap();
    run("train", merged(base, more), dir.path()).unwrap()
}

#[test]
fn checkpointing_and_prefetch_leave_the_loss_curve_as_it_is() {
    let plain = small(&json!({"grad_accumulation": 2}));
    for more in [
        json!({"checkpointing": "segment:1"}),
        json!({"checkpointing": "segment:3"}),
        json!({"checkpointing": "balanced"}),
        json!({"prefetch": 3}),
    ] {
        let found = small(&merged(json!({"grad_accumulation": 2}), &more));
        assert_eq!(plain.curves["loss"], found.curves["loss"], "{more}");
        assert_eq!(plain.metrics["loss"], found.metrics["loss"], "{more}");
        assert_eq!(plain.metrics["sparsity"], found.metrics["sparsity"], "{more}");
    }
}

/// Segments give the same bits in single precision only: in other formats, recomputed values are rounded at other places.
#[test]
fn checkpointing_in_shorter_formats_differs_by_their_rounding() {
    for (precision, most) in [("f32", 0.0), ("mixed", 2e-3), ("bf16", 5e-3), ("f16", 5e-3)] {
        let plain = small(&json!({"precision": precision}));
        for checkpointing in ["segment:1", "segment:3", "balanced"] {
            let found = small(&json!({"precision": precision, "checkpointing": checkpointing}));
            let pairs = plain.curves["loss"].values.iter().zip(&found.curves["loss"].values);
            let worst = pairs.map(|(plain, found)| (plain - found).abs()).fold(0.0, f64::max);
            println!("{precision} {checkpointing}: {worst:.1e}");
            // Rounding may decide whether gradients overflow; a step that is left out is one step of learning less.
            let left_out = |outcome: &Outcome| outcome.metrics.get("steps.skipped").map_or(0.0, |metric| metric.value);
            let most = if checkpointing == "balanced" { 0.0 } else { most };
            let most = most + 0.3 * (left_out(&plain) - left_out(&found)).abs();
            assert!(worst <= most, "{precision} {checkpointing}: the loss differs by {worst}");
        }
    }
}

#[test]
fn shorter_formats_train_almost_the_same() {
    let plain = small(&json!({}));
    for (precision, tolerance) in [("mixed", 0.05), ("bf16", 0.1), ("f16", 0.05)] {
        for checkpointing in ["off", "segment:2"] {
            let found = small(&json!({"precision": precision, "checkpointing": checkpointing}));
            let pairs = plain.curves["loss"].values.iter().zip(&found.curves["loss"].values);
            let worst = pairs.map(|(plain, found)| (plain - found).abs()).fold(0.0, f64::max);
            // A step that is left out in the search for the loss's factor is one step of learning less.
            let left_out = found.metrics.get("steps.skipped").map_or(0.0, |metric| metric.value);
            assert!(left_out <= 3.0, "{precision} {checkpointing}: {left_out} steps are left out");
            let tolerance = tolerance + 0.3 * left_out;
            assert!(worst < tolerance, "{precision} {checkpointing}: the loss differs by {worst}");
            assert_ne!(plain.curves["loss"], found.curves["loss"], "{precision}: it is another format");
            assert_eq!(found.metrics.contains_key("steps.skipped"), precision == "f16");
        }
    }
}

#[test]
fn gradients_in_half_precision_are_scaled_back_and_an_overflow_leaves_a_step_out() {
    let network = network("0");
    let (_, expected) = gradients(&network, &with(Checkpointing::Off), 0.0);
    let half = Computing { precision: Precision::F16, ..Computing::default() };
    let (_, found) = gradients(&network, &half, 0.0);
    for (expected, found) in expected.iter().flatten().zip(found.iter().flatten()) {
        assert!(relative_error(found, expected) < 0.02);
    }
    let mut scale = sweep_lab::optim::LossScale::new(Precision::F16).unwrap();
    assert_eq!(sweep_lab::optim::LossScale::new(Precision::Mixed), None);
    let first = scale.factor();
    let tensor = |number: f32| vec![Some(Tensor::<Flex, 1>::from_floats([number, 1.0], &FlexDevice))];
    #[expect(clippy::cast_possible_truncation, reason = "a power of two")]
    let good = scale.unscale(tensor(first as f32)).unwrap().unwrap();
    assert_eq!(host(good[0].clone().unwrap())[0], 1.0);
    assert!(scale.unscale(tensor(f32::INFINITY)).unwrap().is_none());
    assert!(scale.unscale(tensor(f32::NAN)).unwrap().is_none());
    assert_eq!(scale.factor(), first / 4.0);
}

/// The network with all that writes to the residual stream times `k`, and its last normalization divided by it: LayerNorm
/// removes the factor, so the function is the same.
fn louder(network: Gpt<Train>, k: f32) -> Gpt<Train> {
    let infos = sweep_lab::model::infos(&network);
    sweep_lab::model::map_values::<Train, _>(network, &mut |index, value| {
        let name = infos[index].name.as_str();
        let writes = name.starts_with("wte") || name.starts_with("wpe") || name.contains(".c_proj.");
        if writes {
            value * k
        } else if name.starts_with("ln_f.") {
            value / k
        } else {
            value
        }
    })
}

/// Squares of centered activations above 255 are more than half precision can hold.
#[test]
fn large_activations_have_the_loss_and_the_gradients_of_single_precision() {
    for k in [1.0, 3.0, 30.0, 300.0, 3_000.0] {
        let network = louder(network("0"), k);
        let (loss, expected) = gradients(&network, &with(Checkpointing::Off), 0.0);
        for (precision, most) in [(Precision::F16, [1e-2, 3e-2]), (Precision::Bf16, [5e-2, 0.2])] {
            let (found_loss, found) = gradients(&network, &Computing { precision, ..Computing::default() }, 0.0);
            let worst = expected.iter().flatten().zip(found.iter().flatten());
            let worst = worst.map(|(expected, found)| relative_error(found, expected)).fold(0.0, f64::max);
            let error = (loss[0] - found_loss[0]).abs();
            println!("{precision} {k}: loss {error:.1e}, gradients {worst:.1e}");
            assert!(error < most[0], "{precision} {k}: {} instead of {}", found_loss[0], loss[0]);
            assert!(worst < f64::from(most[1]), "{precision} {k}: gradients are off by {worst}");
        }
    }
}

/// In half precision a training that diverges ends as it does in single precision, and does not leave out all further steps.
#[test]
fn a_training_that_diverges_in_half_precision_ends_or_has_the_loss_of_its_weights() {
    let wild = json!({"lr": 0.3, "iters": 80, "prune": "none", "precision": "f16"});
    let base = json!({
        "n_layer": 4, "n_head": 2, "d_model": 16, "block_size": 16, "batch_size": 4, "eval_batches": 2, "log_every": 1,
        "dropout": 0, "warmup_iters": 2,
    });
    let dir = tempfile::tempdir().unwrap();
    match run("train", merged(base, &wild), dir.path()) {
        Err(failure) => {
            assert!(failure.message.contains("is NaN") || failure.message.contains("infinite"), "{failure:?}");
        }
        Ok(outcome) => {
            let of = |name: &str| outcome.metrics[name].value;
            println!("skipped {}, train {}, held out {}", of("steps.skipped"), of("train_loss"), of("loss"));
            assert!(of("steps.skipped") < 45.0);
            assert!((of("train_loss") - of("loss")).abs() < 1.0);
        }
    }
}

#[test]
fn what_is_not_measured_has_a_reason() {
    let outcome = small(&json!({"breakdown": true, "ceiling": true}));
    let info = Task::info("train").unwrap();
    for metric in info.metrics() {
        let reason = outcome.facts.get(&format!("absent.{}", metric.name));
        let measured = outcome.metrics.get(metric.name);
        assert!(measured.is_some() != reason.is_some(), "{}: {measured:?} {reason:?}", metric.name);
        assert!(measured.is_none_or(|measured| measured.unit == metric.unit), "{}", metric.name);
    }
    for (name, reason) in [
        ("memory.device.peak", "the CPU backend has no allocator of its own; `memory.peak` includes its memory"),
        ("utilization.compute", "the CPU backend computes on no GPU"),
        ("fusion.operations", "the CPU backend compiles no kernels, so there is nothing to fuse"),
    ] {
        assert_eq!(outcome.facts[&format!("absent.{name}")], reason);
    }
    let value = |name: &str| outcome.metrics[name].value;
    assert!(value("time.step.p5") <= value("time.step") && value("time.step") <= value("time.step.p95"));
    assert!((value("compute.flops") / value("peak.compute") / value("compute.mfu") - 1.0).abs() < 1e-9);
}

/// The format's own rules, as its document gives them: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
fn check_trace_events(trace: &Value) {
    let events = trace["traceEvents"].as_array().unwrap();
    for event in events {
        assert!(event["name"].is_string() && event["ts"].is_number(), "{event}");
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        match event["ph"].as_str().unwrap() {
            "X" => assert!(event["dur"].as_f64().unwrap() >= 0.0 && event["ts"].as_f64().unwrap() >= 0.0, "{event}"),
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "C" => assert!(event["args"].as_object().unwrap().values().all(Value::is_number), "{event}"),
            other => panic!("a phase `{other}` that this program does not write"),
        }
    }
    // Events of one row nest or come one after the other; these come one after the other.
    for row in 1..=3 {
        let spans = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == row);
        let spans: Vec<(f64, f64)> =
            spans.map(|span| (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap())).collect();
        assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0 + 1e-3), "row {row} overlaps");
    }
}

#[test]
fn a_trace_opens_and_its_phases_add_up_to_the_steps() {
    let dir = tempfile::tempdir().unwrap();
    let given = json!({
        "n_layer": 4, "d_model": 64, "batch_size": 16, "iters": 12, "dropout": 0, "prune": "magnitude", "prune_every": 3,
        "prune_warmup": 0, "prune_ramp_end": 6, "trace": true,
    });
    let outcome = run("train", given, dir.path()).unwrap();
    assert_eq!(outcome.artifacts["trace"], "trace.json");
    let text = std::fs::read(dir.path().join(Path::new(&outcome.artifacts["trace"]))).unwrap();
    let trace: Value = serde_json::from_slice(&text).unwrap();
    check_trace_events(&trace);
    let spans = |category: &str| -> Vec<(f64, f64)> {
        let events = trace["traceEvents"].as_array().unwrap().iter();
        let of = events.filter(|event| event["ph"] == "X" && event["cat"] == category);
        of.map(|event| (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap())).collect()
    };
    let (steps, phases) = (spans("step"), spans("host"));
    assert_eq!(steps.len(), 12);
    assert!(phases.len() >= 12 * 5, "{}", phases.len());
    let within =
        |step: &(f64, f64), phase: &&(f64, f64)| phase.0 >= step.0 && phase.0 + phase.1 <= step.0 + step.1 + 1.0;
    let whole: f64 = steps.iter().map(|step| step.1).sum();
    let parts: f64 =
        steps.iter().flat_map(|step| phases.iter().filter(move |phase| within(step, phase))).map(|phase| phase.1).sum();
    assert!(parts <= whole * 1.001 && parts >= whole * 0.95, "phases {parts} µs of {whole} µs");
}
