//! The end of `sweep run`: reports, exit status and JSON output.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;
use sweep_job::Failure;

use super::{
    RunArgs,
    reports::{self, End},
    unread,
};
use crate::{
    cli::answer::{self, answer},
    error::{Error, Exit},
    format::say,
    plan::Plan,
    record::Key,
    render::{Page, ReportData},
    run::{RunFolder, Summary, watch::Snapshot},
    session::{Finished, Prepared},
    store::Store,
};

/// The end of a run.
pub(in crate::cli) struct Ended {
    pub(in crate::cli) exit: Exit,
    summary: Summary,
    /// The names of the runs: one for each batch of a search; none if nothing had to run.
    runs: Vec<String>,
    /// The reports for the JSON output.
    pub(in crate::cli) reports: Vec<ReportData>,
    /// The arguments that mean its recipes.
    typed: Vec<String>,
}

/// The JSON output of `sweep run`.
#[derive(Serialize)]
struct RunAnswer<'a> {
    runs: &'a [String],
    summary: &'a Summary,
    failures: Vec<FailedJob>,
    reports: &'a [ReportData],
}

#[derive(Serialize)]
struct FailedJob {
    job: String,
    key: Key,
    failure: Failure,
    /// True if the recipe allows it.
    tolerated: bool,
    /// The file with its output.
    log: Option<PathBuf>,
}

/// Reports a run, and determines the exit status.
pub(super) fn conclude(results: &Path, args: &RunArgs, store: &Store, finished: Finished) -> Result<Ended, Error> {
    let Finished { prepared: Prepared { plan, .. }, summary, runs, page, stamps, notifier } = finished;
    let plan: &Plan = &plan;
    if let Some(reason) = &summary.broken {
        notifier.conclude(&summary, &BTreeMap::new());
        return Err(Error::Broken(reason.clone()));
    }
    let mut ended = Ended { exit: Exit::Done, summary, runs, reports: Vec::new(), typed: plan.typed() };
    let summary = &ended.summary;
    if summary.detached && summary.interrupted.is_none() {
        say(format_args!(
            "the jobs continue in the queue; `sweep status` shows them, and the same command waits for them"
        ));
        return Ok(ended);
    }
    if matches!(page, Page::Anew) {
        index(store, plan);
    }
    let end = End { page, ended: summary.interrupted.is_none(), is_json: args.format.is_json() };
    let reported = reports::report(results, plan, store, &end, stamps);
    if !ended.runs.is_empty() {
        let none = BTreeMap::new();
        notifier.conclude(summary, reported.as_ref().map_or(&none, |reported| &reported.verdicts));
    }
    let reports::Reported { refuted, data, .. } = reported?;
    if !args.is_study && ended.has_run() {
        unread::say_unread(plan, store)?;
    }
    ended.exit = match (summary.interrupted, reports::lost(summary)) {
        (Some(signal), _) => Exit::Interrupted(signal),
        (None, 0) if args.strict && refuted => Exit::Refuted,
        (None, 0) => Exit::Done,
        (None, _) => Exit::JobFailed,
    };
    ended.reports = data;
    Ok(ended)
}

/// Gives new records their lines in the index, so that the next run need not read them. If this fails, the next run reads them.
fn index(store: &Store, plan: &Plan) {
    let keys: Vec<Key> = plan.jobs().map(|(_, job)| job.key).collect();
    let _ = store.look(&keys);
}

impl Ended {
    /// True if a job had to run.
    pub(in crate::cli) fn has_run(&self) -> bool {
        !self.runs.is_empty()
    }

    /// True if a job has ended with a record.
    pub(in crate::cli) fn has_done(&self) -> bool {
        self.summary.done > 0
    }

    /// Prints the JSON output if it was requested, and returns the exit status.
    pub(in crate::cli) fn exit_after_answer(&self, results: &Path, args: &RunArgs) -> Result<Exit, Error> {
        if args.format.is_json() {
            self.answer(results)?;
        }
        Ok(self.exit)
    }

    fn answer(&self, results: &Path) -> Result<(), Error> {
        let (mut failures, mut next) = (Vec::new(), Vec::new());
        for folder in self.runs.iter().map(|run| RunFolder::named(results, run)) {
            let snapshot = Snapshot::read(&folder).map_err(Error::io("cannot read the run"))?;
            next.extend(answer::of_failures(results, &folder, &snapshot));
            failures.extend(answer::failures(&snapshot).map(|(job, failure, tolerated)| FailedJob {
                job: job.label.clone(),
                key: job.key,
                failure: failure.clone(),
                tolerated,
                log: Some(folder.log(job.key)).filter(|log| log.is_file()),
            }));
        }
        next.truncate(answer::MAX_COMMANDS_OF_FAILURES);
        if self.summary.detached {
            next.push(answer::line(results, ["status"]));
        }
        next.push(match self.exit {
            Exit::Done | Exit::Refuted if !self.summary.detached => {
                answer::with_words(results, "report", &self.typed, &[])
            }
            _ => answer::again(&[], &[]),
        });
        let (runs, summary, reports) = (&self.runs, &self.summary, &self.reports);
        answer(&RunAnswer { runs, summary, failures, reports }, next)
    }
}
