//! `uses: pair/…`: one thing done in several ways, which are in `papers::pairs`.

use sweep_job::{Outcome, tasks::Pair};

use super::{Context, Run};
use crate::{LabError, papers::pairs};

impl Run for Pair {
    fn run(&self, Context { backend, folders, report }: Context<'_>) -> Result<Outcome, LabError> {
        pairs::run(self, backend, folders, report)
    }
}
