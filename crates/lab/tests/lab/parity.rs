//! Every GPU of this machine, including software implementations, compared with Burn's operations on the CPU: fused and
//! eager, with all kinds of checkpointing, optimizers and pruning methods.

use std::{path::Path, sync::Mutex, time::Instant};

use crate::common::{golden, merged, run, run_on};
use serde_json::{Value, json};
use sweep_job::{Backend, Task, tasks::PruneMethod};

/// Held while kernels are switched off for the reference: the switch is the process's.
static KERNELS: Mutex<()> = Mutex::new(());

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
        cases.push(json!({"fusion": fusion}));
        for checkpointing in ["balanced", "segment:1"] {
            cases.push(json!({"fusion": fusion, "checkpointing": checkpointing}));
        }
        for more in [json!({"optimizer": "adamwspam"}), json!({"amsgrad": true})] {
            cases.push(merged(json!({"fusion": fusion}), &more));
        }
        for precision in ["mixed", "bf16", "f16"] {
            // In half precision the first steps are left out, until the loss's scale is small enough.
            cases.push(json!({"fusion": fusion, "precision": precision, "iters": 12}));
        }
        cases.push(json!({"fusion": fusion, "precision": "mixed", "ablation": "16"}));
        for prune in PruneMethod::ALL.iter().filter(|method| **method != PruneMethod::None) {
            // The output layer is no linear layer, whose inputs are seen.
            let head = if prune.by_output() { json!({"prune_tied_head": false}) } else { json!({}) };
            cases.push(merged(json!({"fusion": fusion, "prune": prune.word()}), &head));
        }
    }
    cases
}

/// Returns the backends with a GPU, software GPUs included; prints the reason for each backend that is not tested.
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
            run_on(backend, task, merged(workload, &more), tempfile::tempdir().unwrap().path())
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
        assert!(refused.message.contains("`mask: u8` requires the CPU"), "{}", refused.message);
        let refused = run("bench/threshold", json!({"method": "histogram"})).unwrap_err();
        assert!(refused.message.contains("`method: histogram` requires the CPU"), "{}", refused.message);
    }
}

/// One test, because most of its time on a GPU in software goes into compiling kernels, which a process does once.
#[test]
fn every_backend_computes_what_plain_operations_compute() {
    let _kernels = KERNELS.lock().unwrap();
    assert_cases(Backend::Cpu);
    for backend in gpus() {
        assert_fuses_where_asked(backend);
        assert_cases(backend);
        assert_checked(backend);
        assert_ceiling(backend);
    }
}

fn assert_cases(backend: Backend) {
    let begun = Instant::now();
    for case in cases() {
        let outcome = match run_on(backend, "parity", tiny(&case), Path::new(".")) {
            Ok(outcome) => outcome,
            // Half-precision formats are a device's choice; the CPU has all of them.
            Err(failure) if backend != Backend::Cpu && failure.message.contains("the device does not support") => {
                eprintln!("{backend} {case}: not run: {}", failure.message);
                continue;
            }
            Err(failure) => panic!("{backend} {case}: {}", failure.message),
        };
        let headline = Task::info("parity").unwrap().headline.iter();
        let errors: Vec<String> = headline.map(|name| format!("{name} {:.1e}", outcome.metrics[*name].value)).collect();
        eprintln!("{backend} {case}: {} after {:.0} s", errors.join(", "), begun.elapsed().as_secs_f64());
    }
}

/// Every assertion about the architecture.
fn assert_checked(backend: Backend) {
    let asked = json!({"n_layer": 1, "n_head": 2, "d_model": 16, "block_size": 8, "vocab_size": 64, "length": 8});
    let outcome = run_on(backend, "check", asked, Path::new("."));
    let metrics = outcome.unwrap_or_else(|failure| panic!("{backend}: {}", failure.message)).metrics;
    assert_eq!(metrics["assertions"].value, 13.0, "{backend}");
}

fn assert_ceiling(backend: Backend) {
    let asked = json!({"iters": 3, "eval_batches": 1, "ceiling": true});
    let outcome = run_on(backend, "train", merged(tiny(&json!({})), &asked), tempfile::tempdir().unwrap().path());
    let metrics = outcome.unwrap_or_else(|failure| panic!("{backend}: {}", failure.message)).metrics;
    for name in ["peak.compute", "peak.bandwidth", "compute.mfu"] {
        assert!(metrics[name].value > 0.0, "{backend}: {name}");
    }
}

/// Operations are fused only where fusion is requested.
fn assert_fuses_where_asked(backend: Backend) {
    let counts = |fusion: &str| {
        let asked = json!({"eval_batches": 1, "iters": 3, "dropout": 0, "fusion": fusion});
        let folder = tempfile::tempdir().unwrap();
        let outcome = run_on(backend, "train", merged(tiny(&json!({})), &asked), folder.path());
        let metrics = outcome.unwrap_or_else(|failure| panic!("{backend}: {}", failure.message)).metrics;
        let memory = metrics["memory.device.peak"].value;
        assert!(memory > 1e4 && memory <= metrics["memory.device.reserved"].value, "{memory}");
        ["fusion.operations", "fusion.kernels"].map(|name| metrics[name].value)
    };
    assert_eq!(counts("off"), [0.0, 0.0]);
    let [operations, kernels] = counts("on");
    assert!(kernels > 10.0 && operations > 2.0 * kernels, "{operations} operations in {kernels} kernels");
}

/// A folder of tokens with one window of 64 tokens and their successors: `i * i + 7` modulo 256.
fn tokens() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..65_u16).flat_map(|index| ((index * index + 7) % 256).to_le_bytes()).collect();
    for name in ["train.bin", "val.bin"] {
        std::fs::write(folder.path().join(name), &bytes).unwrap();
    }
    folder
}

/// The errors of every precision are those of the same network and tokens in PyTorch 2.15 on a CPU, as
/// `scripts/precision-errors.py` prints them: of logits, of blocks, of gradients. Rounding in another order changes the
/// largest of many errors, but not by much; single precision has none to compare, and is a thousand times closer.
#[test]
fn errors_are_those_of_the_precision() {
    let _kernels = KERNELS.lock().unwrap();
    let tokens = tokens();
    let errors = |precision: &str| {
        let given = json!({
            "init": golden("gpt2"), "data": tokens.path(), "batch_size": 1, "iters": 1, "precision": precision,
        });
        let outcome = run("parity", given, Path::new(".")).unwrap_or_else(|failure| panic!("{}", failure.message));
        ["error.logits", "error.modules", "error.gradients"].map(|name| outcome.metrics[name].value)
    };
    let pytorch = [
        ("mixed", [9.25e-3, 6.06e-3, 1.18e-2]),
        ("bf16", [1.27e-2, 1.09e-2, 1.62e-2]),
        ("f16", [1.04e-3, 1.02e-3, 2.08e-3]),
    ];
    for (precision, expected) in pytorch {
        let found = errors(precision);
        for (found, expected) in found.iter().zip(expected) {
            assert!((expected / 3.0..expected * 3.0).contains(found), "{precision}: {found:.2e}, not {expected:.2e}");
        }
    }
    assert!(errors("f32").iter().all(|error| (1e-9..1e-5).contains(error)));
}

/// With one token in a sequence and one sequence, the gradient of the right token's logit is 1/256 - 1, times the loss's scale
/// 65,536 is -65,280, and that times a normalized number above 1.0034, of which 16 numbers have one, is more than the 65,504
/// that half precision reaches: the first step overflows.
#[test]
fn steps_that_half_precision_leaves_out_are_left_out_on_both_sides() {
    let _kernels = KERNELS.lock().unwrap();
    let one_token = json!({
        "n_layer": 2, "n_head": 2, "d_model": 16, "block_size": 1, "batch_size": 1, "vocab_size": 256, "warmup_iters": 0,
        "lr": 0.01, "precision": "f16",
    });
    let given = |iters: usize| merged(one_token.clone(), &json!({"iters": iters}));
    let outcome = run("parity", given(1), Path::new(".")).unwrap_or_else(|failure| panic!("{}", failure.message));
    assert_eq!(outcome.metrics["steps.skipped"].value, 1.0);
    assert!(!outcome.metrics.contains_key("error.gradients"), "there is no gradient, and no error of 0");
    assert_eq!(
        outcome.facts["absent.error.gradients"],
        "the gradients of every step overflowed in half precision; raise `iters`"
    );

    let outcome = run("parity", given(14), Path::new(".")).unwrap_or_else(|failure| panic!("{}", failure.message));
    let found = |name: &str| outcome.metrics[name].value;
    assert!((1.0..14.0).contains(&found("steps.skipped")), "{:?}", outcome.metrics);
    assert!(found("error.gradients") > 0.0 && found("error.gradients") < 2e-2, "{:?}", outcome.metrics);
    // One step of the reference alone would change the next loss by about ten times that.
    assert!(found("error.loss") > 0.0 && found("error.loss") < 1e-2, "{:?}", outcome.metrics);
    assert!(!outcome.facts.contains_key("absent.error.gradients"));
}
