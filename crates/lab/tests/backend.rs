//! Backends that are not there, backends that are, and tasks that are not the lab's.

mod common;

use std::path::Path;

use common::{Kept, folders, merged, run_on};
use serde_json::json;
use sweep_job::{Backend, Failure, FailureKind, Task, tasks::Mock};

fn tiny(more: &serde_json::Value) -> serde_json::Value {
    let base = json!({"n_layer": 1, "n_head": 2, "d_model": 16, "block_size": 16, "batch_size": 2, "eval_batches": 1});
    merged(base, more)
}

#[test]
fn a_backend_that_is_not_there_is_one_sentence() {
    for rejected in sweep_lab::probe().rejected {
        let failure = run_on(rejected.backend, "eval", tiny(&json!({})), Path::new(".")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Backend);
        let wanted =
            format!("the backend `{}` cannot be used: {}; {}", rejected.backend, rejected.reason, rejected.advice);
        assert_eq!(failure.message, wanted);
        assert!(!failure.message.contains('\n'));
    }
}

#[test]
fn mock_is_not_the_labs() {
    let task = Task::Mock(Mock::default());
    let Failure { kind, message } =
        sweep_lab::run(&task, Backend::Cpu, &folders(Path::new(".")), &mut Kept::default()).unwrap_err();
    assert_eq!((kind, message.as_str()), (FailureKind::Crash, "the lab does not run the task `mock`"));
}

#[test]
#[ignore = "compiles kernels, which takes minutes where the only GPU is imitated by software"]
fn every_device_computes_what_the_cpu_computes() {
    for prune in ["magnitude", "bitter7"] {
        for activation in ["gelu", "gelu_new"] {
            let given = tiny(&json!({
                "iters": 5, "log_every": 1, "dropout": 0, "lr": 1e-2, "warmup_iters": 0, "activation": activation,
                "prune": prune, "prune_every": 1, "prune_tied_head": true, "grad_accumulation": 2,
            }));
            let train = |backend| run_on(backend, "train", given.clone(), Path::new(".")).unwrap();
            let wanted = train(Backend::Cpu);
            for backend in sweep_lab::probe().devices.into_iter().map(|device| device.backend) {
                let found = train(backend);
                let pairs = found.curves["loss"].values.iter().zip(&wanted.curves["loss"].values);
                for (found, wanted) in pairs {
                    assert!((found - wanted).abs() < 1e-4, "{backend}: {found} instead of {wanted}");
                }
                assert!((found.metrics["loss"].value - wanted.metrics["loss"].value).abs() < 1e-4, "{backend}");
                assert_eq!(found.curves["sparsity"], wanted.curves["sparsity"], "{backend}");
            }
        }
    }
}
