//! Missing backends, available backends, and tasks that do not belong to the lab.

use std::path::Path;

use crate::common::{Kept, folders, merged, run_on};
use serde_json::json;
use sweep_job::{Backend, Failure, FailureKind, Task, tasks::Mock};

fn tiny(more: &serde_json::Value) -> serde_json::Value {
    let base = json!({"n_layer": 1, "n_head": 2, "d_model": 16, "block_size": 16, "batch_size": 2, "eval_batches": 1});
    merged(base, more)
}

#[test]
fn a_backend_that_is_not_there_is_one_sentence() {
    for rejected in Backend::ALL.into_iter().flat_map(|backend| sweep_lab::probe(backend).rejected) {
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
