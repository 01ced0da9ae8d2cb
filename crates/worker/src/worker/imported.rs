//! A job that represents a run of another program: `sweep import` writes its record, and no program can compute it.

use sweep_job::{Failure, FailureKind, Job, Outcome, tasks::Imported};

use super::{Channel, Run};
use crate::format::clean;

impl Run for Imported {
    fn run(&self, _job: &Job, _channel: &mut Channel) -> Result<Outcome, Failure> {
        let Self { from, run, .. } = self;
        let message = format!(
            "the record of run `{}` is not in this store, and a run of another program cannot be run here: import it again with \
             `sweep import {}`, or fetch its record with `sweep cache import`",
            clean(run.as_deref().unwrap_or_default()),
            clean(from.as_deref().unwrap_or("PATH"))
        );
        Err(Failure { kind: FailureKind::Input, message })
    }
}
