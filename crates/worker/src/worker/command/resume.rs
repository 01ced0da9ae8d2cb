//! The checkpoints of a program: the checkpoint from which an attempt resumes, and the checkpoints that it declares.

use std::{
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use sweep_job::{Outcome, tasks::Command};

use super::report::Checkpoint;
use crate::run::{Attempts, Scratch};

/// Interval at which the duration of the attempt is written to the scratch folder.
const SAVES: Duration = Duration::from_secs(5);

/// Records the checkpoints and the duration of an attempt in the scratch folder.
#[derive(Debug)]
pub(super) struct Keeper {
    scratch: Scratch,
    attempts: Attempts,
    begun: Instant,
    resume: Option<PathBuf>,
    /// The last reported step in the state of another job, if the program begins with that state.
    began_after: Option<u64>,
    /// The checkpoints that were declared at the last call of [`look`](Self::look).
    declared: Vec<Checkpoint>,
    saved: Instant,
    /// True if the state has been written at least once.
    known: bool,
}

impl Keeper {
    /// Begins an attempt; `earlier` are the checkpoints in the reports of the attempts before it.
    pub(super) fn begin(scratch: &Path, earlier: &[Checkpoint]) -> Self {
        let scratch = Scratch::new(scratch);
        let mut attempts = scratch.attempts();
        // An earlier worker may have been killed after the program reported a checkpoint, and before the worker
        // recorded it.
        for checkpoint in earlier {
            if let Some(path) = scratch.inside(&checkpoint.path)
                && !attempts.knows(&path, checkpoint.step)
            {
                attempts.add(path, checkpoint.step);
            }
        }
        let newest = scratch.newest(&attempts);
        attempts.begin(newest.as_ref());
        if newest.is_none() {
            scratch.began_anew();
        }
        let is_first = attempts.count == 1 && scratch.started().is_some();
        let began_after = newest.as_ref().filter(|_| is_first).and_then(|newest| newest.step);
        let resume = newest.map(|newest| scratch.path(&newest));
        let (now, declared) = (Instant::now(), earlier.to_vec());
        let mut keeper =
            Self { scratch, attempts, begun: now, resume, began_after, declared, saved: now, known: false };
        if keeper.attempts.count > 1 || keeper.resume.is_some() {
            keeper.save();
        }
        keeper
    }

    /// Returns the last reported step in the state of another job with which the program begins. Reports of that job
    /// after this step do not belong to the present job.
    pub(super) fn began_after(&self) -> Option<u64> {
        self.began_after
    }

    /// Sets the environment variables `SWEEP_STOP` and `SWEEP_RESUME` of the program.
    pub(super) fn describe(&self, program: &mut process::Command) {
        program.env("SWEEP_STOP", self.scratch.stop());
        match &self.resume {
            Some(path) => program.env("SWEEP_RESUME", path),
            None => program.env_remove("SWEEP_RESUME"),
        };
    }

    /// Records the new checkpoints among those that the program has `declared` so far; `is_new` is true if the program
    /// has reported anything. Returns the rejected paths: outside of the scratch folder, in the folder of `sweep`
    /// there, or empty.
    pub(super) fn look(&mut self, declared: &[Checkpoint], is_new: bool) -> Vec<String> {
        let mut refused_paths = Vec::new();
        let mut is_added = false;
        for checkpoint in declared.iter().filter(|checkpoint| !self.declared.contains(checkpoint)) {
            match self.scratch.inside(&checkpoint.path) {
                Some(path) => {
                    self.attempts.set_time(self.begun.elapsed());
                    self.attempts.add(path, checkpoint.step);
                    is_added = true;
                }
                None => refused_paths.push(checkpoint.path.clone()),
            }
        }
        if declared != self.declared.as_slice() {
            self.declared = declared.to_vec();
        }
        if is_added || (is_new && !self.known) || (self.known && self.saved.elapsed() >= SAVES) {
            self.save();
        }
        refused_paths
    }

    /// Writes the duration of an attempt that has ended without a result.
    pub(super) fn end(&mut self) {
        if self.known {
            self.save();
        }
    }

    /// True if the program has been asked to stop.
    pub(super) fn is_asked(&self) -> bool {
        self.scratch.is_asked()
    }

    /// Adds the time and the number of attempts to an outcome. `seconds` is the duration of the last attempt; the time
    /// of a resumed program includes the work in its checkpoint.
    pub(super) fn add_to(&mut self, outcome: &mut Outcome, seconds: f64) {
        self.attempts.set_time(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        outcome.set(&Command::TIME_RUN, self.attempts.counted());
        if self.attempts.count > 1 || self.attempts.has_checkpoints() {
            outcome.set(&Command::ATTEMPTS, f64::from(self.attempts.count));
            outcome.set(&Command::TIME_LOST, self.attempts.lost());
        }
    }

    fn save(&mut self) {
        self.attempts.set_time(self.begun.elapsed());
        self.saved = Instant::now();
        // A write error is ignored: it only makes a later attempt start from the beginning.
        self.known |= self.scratch.save(&self.attempts).is_ok();
    }
}
