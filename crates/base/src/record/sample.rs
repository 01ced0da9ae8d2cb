//! A record for tests.

use std::collections::BTreeMap;

use sweep_job::{Outcome, Task, Unit, Values};

use super::{Identity, Milestones, Needed, Provenance, Record};

/// Returns a record with one metric, for tests of this package and of others.
///
/// # Panics
///
/// If the built-in task `mock` does not exist.
pub fn sample() -> Record {
    let task = Task::info("mock").expect("a built-in task");
    let params = task.complete(Values::new());
    let identity = Identity::new(task, &params, None, BTreeMap::new(), Needed::default());
    let mut outcome = Outcome::default();
    outcome.set_open("value", 0.1 + 0.2, Unit::One);
    Record {
        format: Record::format_of(&outcome),
        key: identity.key().expect("values that JSON has"),
        identity,
        label: "mock".into(),
        params,
        outcome,
        files: BTreeMap::new(),
        read: None,
        provenance: Provenance {
            sweep: "0.0.0".into(),
            started: jiff::Timestamp::UNIX_EPOCH,
            seconds: 1.5,
            device: None,
            threads: 1,
            host: "here".into(),
            conditions: None,
            continued: None,
            milestones: Milestones::default(),
            log: None,
            measured: None,
            adopted: None,
            notices: Vec::new(),
        },
    }
}
