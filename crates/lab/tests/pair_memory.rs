//! Memory of the variants of a computation, counted. No test in this process leaks: a leak that is freed later would be
//! counted in the wrong place.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "lab/common/mod.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use the rest")]
mod common;

use common::run;
use serde_json::{Value, json};
use sweep_lab::measure::heap::Counting;

#[global_allocator]
static HEAP: Counting = Counting;

/// The most bytes that the first call needs.
fn memory(task: &str, given: &Value) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let given = common::merged(json!({"calls": 1}), given);
    run(task, given, dir.path()).unwrap().metrics["memory.call"].value
}

#[test]
fn what_is_recomputed_or_freed_needs_less_memory() {
    let layers = |variant: &str| {
        let sizes =
            json!({"variant": variant, "n_layer": 6, "n_head": 2, "d_model": 64, "block_size": 64, "batch_size": 4});
        memory("pair/training", &sizes)
    };
    let (again, kept) = (layers("segment:1"), layers("off"));
    assert!(again < 0.8 * kept, "{again} of {kept}");
    let graphs = |variant: &str| {
        let sizes = json!({"variant": variant, "micro_batches": 8, "batch_size": 256, "width": 32, "n_layer": 3});
        memory("pair/accumulation", &sizes)
    };
    let (each, one) = (graphs("each"), graphs("one_graph"));
    assert!(each < 0.5 * one, "{each} of {one}");
}
