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
#[expect(clippy::too_many_lines, reason = "a list of all tasks and their variants")]
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
            words(&["f32", "mixed", "bf16", "f16", "fp8"]),
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
        (
            "pair/attention",
            "variant",
            words(&["naive", "flash", "flex"]),
            json!({"length": 64, "head_dim": 8, "n_head": 2, "block": 24}),
        ),
        (
            "pair/attention",
            "variant",
            words(&["naive", "flash", "flex"]),
            json!({"length": 50, "head_dim": 8, "n_head": 2, "block": 16, "score": "relative_bias", "batch_size": 2}),
        ),
        (
            "pair/attention",
            "variant",
            words(&["naive", "flash", "flex"]),
            json!({"length": 50, "head_dim": 8, "n_head": 2, "block": 8, "score": "sliding_window", "window": 11}),
        ),
        (
            "pair/kv-cache",
            "variant",
            words(&["concatenate", "preallocate", "paged"]),
            json!({"length": 20, "head_dim": 4, "page": 8}),
        ),
        (
            "pair/kv-cache",
            "variant",
            words(&["concatenate", "preallocate", "paged"]),
            json!({"length": 20, "head_dim": 4, "page": 8, "requests": 3, "capacity": 50, "batch_size": 2}),
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
            words(&["whole", "sharded", "offloaded", "offloaded_parameters"]),
            json!({"n_layer": 3, "width": 8, "batch_size": 4}),
        ),
        (
            "pair/autograd",
            "variant",
            words(&["eager", "fused"]),
            json!({"width": 8, "hidden": 12, "batch_size": 4, "outputs": 5}),
        ),
        (
            "pair/custom-backward",
            "variant",
            words(&["composed", "custom"]),
            json!({"n_layer": 3, "batch_size": 7, "width": 5}),
        ),
        (
            "pair/regional-compile",
            "variant",
            words(&["eager", "fused", "padded", "regional"]),
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
    let declared: Vec<&str> =
        Task::all().iter().map(|info| info.name).filter(|name| name.starts_with("pair/")).collect();
    tasks.sort_unstable();
    tasks.dedup();
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

#[test]
fn caches_have_the_size_of_their_layout() {
    let sizes =
        json!({"length": 96, "requests": 4, "capacity": 256, "page": 16, "n_head": 2, "head_dim": 32, "n_layer": 2});
    // Requests of 96, 72, 48 and 24 tokens: 240 in all, and 16 pages.
    let token = 2.0 * 2.0 * 2.0 * 32.0 * 4.0;
    for (variant, tokens) in [("concatenate", 240.0), ("preallocate", 4.0 * 256.0), ("paged", 16.0 * 16.0)] {
        let outcome = measured("pair/kv-cache", &common::merged(json!({"variant": variant}), &sizes));
        let (bytes, used) = (metric(&outcome, "memory.cache"), metric(&outcome, "cache.used"));
        // Every page has a description, too.
        assert!((bytes / (tokens * token) - 1.0).abs() < 0.15, "{variant}: {bytes} of {}", tokens * token);
        assert!((used - 240.0 * token / bytes).abs() < 1e-9, "{variant}: {used}");
    }
}

/// The errors of `ml_dtypes` and NumPy for other normally distributed numbers are in `fp8.json`.
#[test]
fn rounding_errors_are_those_of_the_formats() {
    let text = include_str!("../src/papers/pairs/testdata/fp8.json");
    let expected: Value = serde_json::from_str(text).unwrap();
    let sizes = json!({"width": 16, "hidden": 24, "batch_size": 8, "micro_batches": 1});
    let formats =
        [("bf16", "bfloat16", "bfloat16"), ("f16", "float16", "float16"), ("fp8", "float8_e4m3fn", "float8_e5m2")];
    for (variant, products, gradients) in formats {
        let outcome = measured("pair/precision", &common::merged(json!({"variant": variant}), &sizes));
        for (name, format) in [("error.rounding", products), ("error.rounding.gradients", gradients)] {
            let (found, expected) = (metric(&outcome, name), expected["errors"][format].as_f64().unwrap());
            // Without a scale, the few numbers near 0 that `f16` has no digits for decide a part of its error.
            let allowed = if variant == "f16" { 0.5 } else { 0.05 };
            assert!((found / expected - 1.0).abs() < allowed, "{variant} {name}: {found} for {expected}");
        }
    }
    assert_eq!(metric(&measured("pair/precision", &sizes), "error.rounding"), 0.0);
}

#[test]
fn parameters_that_are_away_need_no_memory_and_windows_no_scores() {
    let sharding = |variant: &str| {
        measured("pair/sharding", &json!({"variant": variant, "n_layer": 16, "width": 128, "batch_size": 4}))
    };
    let (whole, away) = (sharding("whole"), sharding("offloaded_parameters"));
    let rank = |outcome| metric(outcome, "memory.rank");
    assert!(rank(&whole) > 16.0 * 16.0 * 128.0 * 128.0, "{}", rank(&whole));
    assert!(rank(&away) < rank(&whole) / 2.0, "{} of {}", rank(&away), rank(&whole));
    assert!(metric(&away, "memory.state").abs() < 65_536.0, "{}", metric(&away, "memory.state"));
    assert!(metric(&away, "time.copies") > 0.0);

    let attention = |variant: &str| {
        let sizes = json!({"variant": variant, "length": 512, "n_head": 1, "head_dim": 16, "block": 64, "window": 64});
        measured("pair/attention", &common::merged(sizes, &json!({"score": "sliding_window"})))
    };
    let (naive, flex) = (attention("naive"), attention("flex"));
    // Each of the 8 blocks of queries sees itself and the one before it.
    assert_eq!(metric(&flex, "scores.visited"), 15.0 / 64.0);
    assert!(metric(&flex, "memory.call") < metric(&naive, "memory.call") / 4.0);
}

#[test]
fn a_backward_pass_of_its_own_keeps_less() {
    let memory = |variant: &str| {
        metric(&measured("pair/custom-backward", &json!({"variant": variant, "calls": 1})), "memory.call")
    };
    let (composed, custom) = (memory("composed"), memory("custom"));
    assert!(custom < composed / 1.5, "{custom} of {composed}");
}

#[test]
fn a_profile_has_every_operation_of_a_step() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = json!({"n_layer": 2, "d_model": 32, "n_head": 2, "block_size": 16, "batch_size": 2, "steps": 2});
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = run("profile", sizes, dir.path()).unwrap();
    let table = std::fs::read_to_string(dir.path().join(&outcome.artifacts["operators"])).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let sum = |column: usize| rows.iter().map(|row| row[column].parse::<f64>().unwrap()).sum::<f64>();
    assert_eq!(sum(2), metric(&outcome, "calls"));
    assert!((sum(3) / metric(&outcome, "time.operations") - 1.0).abs() < 1e-3);
    assert!((sum(4) - 1.0).abs() < 1e-3, "shares");
    assert!(metric(&outcome, "time.operations") <= metric(&outcome, "time.step"));
    assert!(metric(&outcome, "memory.operations") > 0.0);
    let calls = |name: &str| rows.iter().find(|row| row[0] == name).unwrap()[2];
    // Each block has four products with weights and two in attention, and two for each of them backward; the output layer has
    // one and two.
    assert_eq!(["linear", "linear_x_backward", "linear_weight_backward"].map(calls), ["8"; 3]);
    assert_eq!(calls("matmul"), (2 * 2 * 3 + 3).to_string());
    // Log of the vocabulary, as the weights are random.
    assert!((metric(&outcome, "loss") - 256_f64.ln()).abs() < 0.5, "{}", metric(&outcome, "loss"));
    let trace: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join(&outcome.artifacts["trace"])).unwrap()).unwrap();
    let named =
        |name: &str| trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == name).count();
    assert_eq!([named("linear"), named("matmul"), named("backward"), named("step 2")], [16, 30, 2, 1]);
}

#[test]
fn a_network_of_the_hub_has_a_profile() {
    let dir = tempfile::tempdir().unwrap();
    let folder = common::golden("gpt2");
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = run("profile", json!({"init": folder, "batch_size": 1, "steps": 1}), dir.path()).unwrap();
    assert!(metric(&outcome, "parameters") > 0.0 && metric(&outcome, "calls") > 10.0);
}
