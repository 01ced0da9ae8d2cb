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

/// The backends with a GPU, a software one included; a line for each that says why it is not tested.
fn gpus() -> impl Iterator<Item = Backend> {
    [Backend::Cuda, Backend::Wgpu].into_iter().filter(|backend| {
        let rejected = sweep_lab::probe(*backend).rejected;
        for rejected in &rejected {
            eprintln!("not tested on {backend}: {}; scripts/test-deps.sh installs Vulkan in software", rejected.reason);
        }
        rejected.is_empty()
    })
}

#[test]
fn benches_choose_exactly_on_every_gpu() {
    for backend in gpus() {
        // More weights than radix selection takes for the bracket.
        let run = |task: &str, more: Value| {
            let workload = json!({"n_layer": 3, "d_model": 160, "calls": 1});
            run_on(backend, task, merged(workload, &more), Path::new("."))
        };
        for method in ["radix", "bracket"] {
            let found = run("bench/threshold", json!({"method": method})).unwrap().metrics;
            assert_eq!((found["error.threshold"].value, found["sparsity"].value), (0.0, 0.5), "{backend} {method}");
            assert!(found["time.floor"].value > 0.0);
            for prune in ["magnitude", "bitter0", "bitter7"] {
                let asked = json!({"method": method, "prune": prune, "mask": "f32"});
                let made = run("bench/mask-update", asked).unwrap().metrics;
                // Burn computes the scores that it is compared with, and may round them otherwise.
                let (error, sparsity) = (made["error.threshold"].value, made["sparsity"].value);
                assert!(
                    error < 1e-6 && (sparsity - 0.5).abs() < 1e-4,
                    "{backend} {method} {prune}: {error}, {sparsity}"
                );
                assert_eq!(made["passes"].value, if method == "radix" { 4.0 } else { 1.0 }, "{backend} {prune}");
            }
        }
        let masking = run("bench/masking", json!({"mask": "f32"})).unwrap().metrics;
        assert_eq!((masking["sparsity"].value, masking["memory.masks"].value), (0.5, 307_200.0));
        let refused = run("bench/mask-update", json!({"mask": "u8"})).unwrap_err();
        assert!(refused.message.contains("`mask: u8` needs the CPU"), "{}", refused.message);
        let refused = run("bench/threshold", json!({"method": "histogram"})).unwrap_err();
        assert!(refused.message.contains("`method: histogram` needs the CPU"), "{}", refused.message);
    }
}

#[test]
fn every_gpu_has_a_ceiling() {
    for backend in gpus() {
        let asked = json!({"iters": 3, "eval_batches": 1, "ceiling": true});
        let outcome = run_on(backend, "train", merged(tiny(&json!({})), &asked), Path::new("."));
        let metrics = outcome.unwrap_or_else(|failure| panic!("{backend}: {}", failure.message)).metrics;
        for name in ["compute.ceiling", "bandwidth.ceiling", "compute.mfu"] {
            assert!(metrics[name].value > 0.0, "{backend}: {name}");
        }
    }
}

#[test]
fn every_backend_computes_what_plain_operations_compute() {
    for backend in [Backend::Cpu].into_iter().chain(gpus()) {
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
