//! Chapter 13's pairs at tiny sizes: all variants give the same output, and need the expected memory.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "lab/common/mod.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use the rest")]
mod common;

use std::sync::{Mutex, PoisonError};

use common::run;
use serde_json::{Value, json};
use sweep_job::{Outcome, Task};
use sweep_lab::measure::heap::Counting;

#[global_allocator]
static HEAP: Counting = Counting;

/// Counting is the process's, so one job at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Result of a variant, with few calls.
fn measured(task: &str, given: &Value) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let given = common::merged(json!({"calls": 3}), given);
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    run(task, given.clone(), dir.path()).unwrap_or_else(|failure| panic!("{task} {given}: {}", failure.message))
}

fn metric(outcome: &Outcome, name: &str) -> f64 {
    outcome.metrics.get(name).unwrap_or_else(|| panic!("no {name}")).value
}

/// Every task with its variants' parameter, its variants, and tiny sizes.
fn all() -> Vec<(&'static str, &'static str, Vec<Value>, Value)> {
    let words = |words: &[&str]| words.iter().map(|word| json!(word)).collect::<Vec<_>>();
    vec![
        (
            "pair/dataloader",
            "variant",
            words(&["sync", "workers", "persistent"]),
            json!({"samples": 50, "width": 12, "batch_size": 8, "hidden": 6, "rounds": 2, "workers": 3}),
        ),
        (
            "pair/bandwidth",
            "variant",
            words(&["strided", "contiguous"]),
            json!({"numbers": 4096, "stride": 63, "passes": 1}),
        ),
        (
            "pair/precision",
            "variant",
            words(&["f32", "mixed", "bf16", "f16"]),
            json!({"width": 16, "hidden": 24, "batch_size": 8, "micro_batches": 2}),
        ),
        (
            "pair/training",
            "variant",
            words(&["off", "balanced", "segment:1", "segment:2"]),
            json!({"n_layer": 4, "n_head": 2, "d_model": 16, "block_size": 12, "batch_size": 2}),
        ),
        ("pair/arithmetic-intensity", "k_tile", vec![json!(0), json!(4), json!(16), json!(32)], json!({"size": 32})),
        (
            "pair/memory-profiling",
            "variant",
            words(&["kept", "recomputed"]),
            json!({"width": 12, "hidden": 20, "batch_size": 6}),
        ),
        ("pair/leak", "variant", words(&["leaking", "fixed"]), json!({"width": 16, "iterations": 8})),
        ("pair/attention", "variant", words(&["naive", "flash"]), json!({"length": 64, "head_dim": 8, "n_head": 2})),
        (
            "pair/kv-cache",
            "variant",
            words(&["concatenate", "preallocate", "paged"]),
            json!({"length": 20, "head_dim": 4, "page": 8}),
        ),
        ("pair/matmul", "variant", words(&["naive", "tiled", "library", "fused"]), json!({"size": 70})),
        ("pair/allocator", "variant", words(&["system", "pool"]), json!({"blocks": 20, "least": 5000, "most": 60000})),
        (
            "pair/accumulation",
            "variant",
            words(&["one_graph", "each"]),
            json!({"micro_batches": 3, "batch_size": 4, "width": 8, "n_layer": 2}),
        ),
        (
            "pair/sharding",
            "variant",
            words(&["whole", "sharded", "offloaded"]),
            json!({"n_layer": 3, "width": 8, "batch_size": 4}),
        ),
        ("pair/autograd", "variant", words(&["eager", "fused"]), json!({"width": 8, "hidden": 12, "batch_size": 4})),
        (
            "pair/regional-compile",
            "variant",
            words(&["eager", "fused", "padded"]),
            json!({"d_model": 8, "n_head": 2, "hidden": 12, "length": 16}),
        ),
    ]
}

#[test]
fn every_way_gives_the_output_of_the_one_that_is_right() {
    let mut tasks = Vec::new();
    for (task, param, variants, sizes) in all() {
        for variant in variants {
            let outcome = measured(task, &common::merged(sizes.clone(), &json!({param: variant})));
            assert!(metric(&outcome, "error.output") <= metric(&outcome, "error.allowed"), "{task} {variant}");
            assert!(metric(&outcome, "time.call") > 0.0 && metric(&outcome, "memory.call") >= 0.0, "{task} {variant}");
            for name in outcome.metrics.keys() {
                assert!(Task::info(task).unwrap().metric(name).is_some(), "{task} does not declare `{name}`");
            }
        }
        tasks.push(task);
    }
    let declared: Vec<&str> = Task::ALL.iter().map(|info| info.name).filter(|name| name.starts_with("pair/")).collect();
    tasks.sort_unstable();
    let mut sorted = declared.clone();
    sorted.sort_unstable();
    assert_eq!(tasks, sorted, "every pair is tried");
}

#[test]
fn every_pattern_leaks_and_stops_to_leak() {
    for pattern in ["tensors", "losses", "inference"] {
        let slope = |variant: &str| {
            let given = json!({"variant": variant, "pattern": pattern, "width": 64, "iterations": 12});
            metric(&measured("pair/leak", &given), "memory.slope")
        };
        // A tensor has 16 KiB.
        let (leaking, fixed) = (slope("leaking"), slope("fixed"));
        assert!(leaking > 0.9 * 16_384.0, "{pattern}: {leaking}");
        assert!(fixed.abs() < 256.0, "{pattern}: {fixed}");
    }
}

#[test]
fn scores_in_memory_grow_with_the_square_and_blocks_do_not() {
    let exponent = |variant: &str| {
        let outcome = measured("pair/attention", &json!({"variant": variant, "n_head": 1, "head_dim": 16, "calls": 1}));
        (metric(&outcome, "memory.exponent"), metric(&outcome, "memory.call"))
    };
    let ((naive, most), (flash, least)) = (exponent("naive"), exponent("flash"));
    assert!((1.8..2.2).contains(&naive), "{naive}");
    assert!((0.7..1.3).contains(&flash), "{flash}");
    assert!(least < most / 4.0, "{least} of {most}");
}

#[test]
fn states_take_what_was_counted_on_paper() {
    for (variant, part) in [("whole", 16.0), ("sharded", 4.0), ("offloaded", 8.0)] {
        let outcome = measured("pair/sharding", &json!({"variant": variant, "shards": 4, "n_layer": 4, "width": 128}));
        let (state, model) = (metric(&outcome, "memory.state"), metric(&outcome, "memory.model"));
        assert_eq!(model, part * 4.0 * 128.0 * 128.0);
        assert!((state / model - 1.0).abs() < 0.05, "{variant}: {state} of {model}");
    }
}

#[test]
fn a_tile_lowers_the_intensity_as_the_paper_counts_it() {
    let intensity =
        |tile: Value| metric(&measured("pair/arithmetic-intensity", &json!({"size": 64, "k_tile": tile})), "intensity");
    // 341 against 30 FLOP/B at 2048 with tiles of 128; the same formula at 64 with tiles of 4.
    assert!((intensity(json!(0)) - 64.0 / 6.0).abs() < 1e-9);
    assert!((intensity(json!(4)) - 2.0 * 64.0 / (4.0 * (2.0 + 2.0 * 16.0))).abs() < 1e-9);
}

#[test]
fn a_pool_hits_and_pays_with_unused_bytes() {
    let outcome = measured("pair/allocator", &json!({"variant": "pool", "blocks": 50, "least": 5000, "most": 60000}));
    assert_eq!(metric(&outcome, "hit_rate"), 1.0, "after the first call");
    assert!((0.5..1.0).contains(&metric(&outcome, "efficiency")));
    let outcome = measured("pair/allocator", &json!({"blocks": 50, "least": 5000, "most": 60000}));
    assert_eq!(metric(&outcome, "efficiency"), 1.0);
    assert!(!outcome.metrics.contains_key("hit_rate"));
}

#[test]
fn a_trace_has_the_phases_of_five_calls() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = json!({"trace": true, "calls": 1, "width": 8, "hidden": 12, "batch_size": 4});
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = run("pair/autograd", sizes, dir.path()).unwrap();
    let text = std::fs::read_to_string(dir.path().join(&outcome.artifacts["trace"])).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let count =
        |name: &str| trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == name).count();
    assert_eq!(["forward", "backward", "optimizer", "step 1", "step 5"].map(count), [5, 5, 5, 1, 1]);
}
