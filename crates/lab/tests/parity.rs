//! Every GPU of this machine, a software one included, against plain operations on the CPU: fused and eager, with every kind
//! of checkpointing, every optimizer, every way to prune.

mod common;

use std::{path::Path, time::Instant};

use common::{merged, run_on};
use serde_json::{Value, json};
use sweep_job::{Backend, Task, tasks::PruneMethod};

fn tiny(more: &Value) -> Value {
    let base = json!({
        "n_layer": 2, "n_head": 2, "d_model": 16, "block_size": 8, "batch_size": 2, "vocab_size": 256, "warmup_iters": 0,
        "lr": 1e-3, "prune_tied_head": true, "spam_clip_after": 1, "spam_interval": 2,
    });
    merged(base, more)
}

/// Everything that is compared.
fn cases() -> Vec<Value> {
    let mut cases = Vec::new();
    for fusion in ["off", "on"] {
        for checkpointing in ["off", "balanced", "segment:1"] {
            cases.push(json!({"fusion": fusion, "checkpointing": checkpointing}));
        }
        for more in [json!({"optimizer": "adamwspam"}), json!({"amsgrad": true})] {
            cases.push(merged(json!({"fusion": fusion}), &more));
        }
        for prune in PruneMethod::ALL.iter().filter(|method| **method != PruneMethod::None) {
            cases.push(json!({"fusion": fusion, "prune": prune.word()}));
        }
    }
    cases
}

#[test]
fn every_backend_computes_what_plain_operations_compute() {
    let gpus = [Backend::Cuda, Backend::Wgpu].into_iter().filter(|backend| {
        let rejected = sweep_lab::probe(*backend).rejected;
        for rejected in &rejected {
            eprintln!("not tested on {backend}: {}; scripts/test-deps.sh installs Vulkan in software", rejected.reason);
        }
        rejected.is_empty()
    });
    for backend in [Backend::Cpu].into_iter().chain(gpus) {
        let begun = Instant::now();
        for case in cases() {
            let outcome = run_on(backend, "parity", tiny(&case), Path::new("."));
            let outcome = outcome.unwrap_or_else(|failure| panic!("{backend} {case}: {}", failure.message));
            let errors: Vec<String> = Task::info("parity")
                .unwrap()
                .headline
                .iter()
                .map(|name| format!("{name} {:.1e}", outcome.metrics[*name].value))
                .collect();
            eprintln!("{backend} {case}: {} after {:.0} s", errors.join(", "), begun.elapsed().as_secs_f64());
        }
    }
}

#[test]
fn fusion_is_on_only_where_it_is_asked_for() {
    if let Some(rejected) = sweep_lab::probe(Backend::Wgpu).rejected.first() {
        eprintln!("not tested: {}; scripts/test-deps.sh installs Vulkan in software", rejected.reason);
        return;
    }
    let counts = |fusion: &str| {
        let given = json!({
            "n_layer": 2, "n_head": 2, "d_model": 16, "block_size": 8, "batch_size": 2, "eval_batches": 1, "iters": 3,
            "dropout": 0, "fusion": fusion,
        });
        let outcome = run_on(Backend::Wgpu, "train", given, Path::new(".")).unwrap();
        let memory = outcome.metrics["memory.device.peak"].value;
        assert!(memory > 1e4 && memory <= outcome.metrics["memory.device.reserved"].value, "{memory}");
        ["fusion.operations", "fusion.kernels"].map(|name| outcome.metrics[name].value)
    };
    assert_eq!(counts("off"), [0.0, 0.0]);
    let [operations, kernels] = counts("on");
    assert!(kernels > 10.0 && operations > 2.0 * kernels, "{operations} operations in {kernels} kernels");
}
