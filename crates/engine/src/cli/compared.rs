//! Jobs that ran again, compared with their records.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use sweep_job::Backend;

use crate::{
    error::{Error, Exit},
    export::bundle::{Compared, Differing, Opened},
    format::{clean, count, say},
    plan::{JobId, Plan},
    record::Environment,
    run::Disposition,
    session::run_jobs,
    store::Store,
};

/// Names that a line lists at most.
pub(super) const MAX_NAMED: usize = 4;

/// The result of running jobs again.
#[derive(Debug, Serialize)]
pub(super) struct Reruns {
    /// The seed of the selection.
    seed: u64,
    jobs: Vec<RerunJob>,
    /// Selected jobs that cannot run again here.
    left_out: Vec<LeftOut>,
    /// Parts of the environments of jobs that are not as in their records; only of rebuilt environments.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Vec<OtherPart>>,
    /// The signal that stopped the jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<i32>,
}

/// A job that ran again.
#[derive(Debug, Serialize)]
struct RerunJob {
    job: String,
    outcome: Outcome,
    #[serde(flatten)]
    compared: Option<Compared>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Agrees,
    Differs,
    Failed,
    /// No metric could be compared.
    Unknown,
}

/// A program, a library or a package that is not as in the record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct OtherPart {
    part: String,
    then: Vec<String>,
    now: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LeftOut {
    job: String,
    reason: String,
}

/// The store with the records, and the results folder in which jobs run again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stores<'a> {
    pub(super) then: &'a Store,
    pub(super) again: &'a Path,
}

/// A seed for a selection that the user leaves to chance.
pub(super) fn any_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::from(since.subsec_nanos()))
}

impl Reruns {
    /// A comparison without jobs; `left` are the jobs that cannot run again, each with the reason.
    pub(super) fn new(seed: u64, left: Vec<(String, String)>) -> Self {
        let left_out = left.into_iter().map(|(job, reason)| LeftOut { job, reason }).collect();
        Self { seed, jobs: Vec::new(), left_out, environment: None, interrupted: None }
    }

    /// Runs all jobs of a plan, and compares the jobs in `sample` with their records.
    pub(super) fn run(
        &mut self,
        plan: &Plan,
        sample: &[JobId],
        stores: Stores<'_>,
        backend: Backend,
        tolerance: f64,
    ) -> Result<(), Error> {
        let needed = plan.len() - sample.len();
        let more = if needed > 0 { format!(" and {} that they need", count(needed, "job")) } else { String::new() };
        let (jobs, seed) = (count(sample.len(), "job"), self.seed);
        say(format_args!("running {jobs}{more} again (`--seed {seed}` draws the same)"));
        let now = Store::open(stores.again)?;
        let wanted = vec![Disposition::Yes; plan.len()];
        let ended = run_jobs(plan, &now, backend, &wanted, None, false)?;
        self.interrupted = ended.interrupted;
        if self.interrupted.is_none() {
            let one = |id: &JobId| RerunJob::new(plan, *id, stores.then, &now, tolerance);
            self.jobs = sample.iter().map(one).collect::<Result<_, Error>>()?;
        }
        Ok(())
    }

    /// Compares the environments in which the jobs of a plan ran with the environments of a bundle's records.
    pub(super) fn compare_environments(
        &mut self,
        bundle: &Opened,
        plan: &Plan,
        stores: Stores<'_>,
    ) -> Result<(), Error> {
        let now = Store::open(stores.again)?;
        let mut parts = BTreeSet::new();
        for (_, job) in plan.jobs() {
            let (Some(then_record), Some(now_record)) = (stores.then.get(job.key)?, now.get(job.key)?) else {
                continue;
            };
            let id = now_record.provenance.conditions.as_ref().and_then(|conditions| conditions.environment.as_deref());
            let (Some(then), Some(now)) = (bundle.environment(&then_record), id.and_then(|id| now.environment(id)))
            else {
                continue;
            };
            let differences = Environment::differences(&[&then], &[&now]);
            parts.extend(differences.into_iter().map(|(part, [then, now])| OtherPart { part, then, now }));
        }
        self.environment = Some(parts.into_iter().collect());
        Ok(())
    }

    /// The lines about rebuilt environments.
    fn environment_lines(&self) -> Vec<String> {
        const MAX_LINES: usize = 8;
        let Some(parts) = self.environment.as_deref().filter(|_| !self.jobs.is_empty()) else { return Vec::new() };
        if parts.is_empty() {
            return vec!["the environments are those of the records, as far as they were observed".to_owned()];
        }
        let is_package = |part: &&OtherPart| part.part.starts_with("package ");
        let packages = parts.iter().filter(is_package).count();
        let others = parts.len() - packages;
        let mut lines = vec![format!(
            "not as in the records: {}, and {} of the system (programs, libraries, containers), which are not rebuilt",
            count(packages, "package"),
            count(others, "part")
        )];
        let list = |values: &[String]| {
            if values.is_empty() { "none".to_owned() } else { clean(&values.join(", ")).into_owned() }
        };
        let ordered = parts.iter().filter(is_package).chain(parts.iter().filter(|part| !is_package(part)));
        lines.extend(ordered.take(MAX_LINES).map(|OtherPart { part, then, now }| {
            format!("    {}: {} then, {} now", clean(part), list(then), list(now))
        }));
        if parts.len() > MAX_LINES {
            lines.push(format!("    and {} more; `--format json` has all of them", parts.len() - MAX_LINES));
        }
        lines
    }

    /// The exit status: a job that cannot run again confirms nothing.
    pub(super) fn exit(&self) -> Exit {
        if let Some(signal) = self.interrupted {
            return Exit::Interrupted(signal);
        }
        let is_wrong = |job: &RerunJob| matches!(job.outcome, Outcome::Differs | Outcome::Failed);
        let is_good = !self.jobs.is_empty() && self.left_out.is_empty() && !self.jobs.iter().any(is_wrong);
        if is_good { Exit::Done } else { Exit::Failure }
    }

    /// The result for people.
    pub(super) fn text(&self) -> String {
        if self.interrupted.is_some() {
            return String::new();
        }
        let mut lines: Vec<String> = self.jobs.iter().flat_map(RerunJob::lines).collect();
        if !self.jobs.is_empty() {
            lines.push(Tally::of(&self.jobs).text(self.jobs.len()));
        }
        lines.extend(self.environment_lines());
        let left = self.left_out.iter();
        lines.extend(
            left.map(|LeftOut { job, reason }| format!("✗ {} cannot run again here: {}", clean(job), clean(reason))),
        );
        let left = count(self.left_out.len(), "job");
        let not_again = format!("{left} of the selection cannot run again, so their results are not confirmed");
        match (self.jobs.is_empty(), self.left_out.is_empty()) {
            (true, _) => lines.push(format!("nothing ran again: {not_again}")),
            (false, false) => lines.push(not_again),
            (false, true) => {}
        }
        lines.join("\n") + "\n"
    }
}

impl RerunJob {
    fn new(plan: &Plan, id: JobId, then: &Store, now: &Store, tolerance: f64) -> Result<Self, Error> {
        let job = plan.job(id);
        let label = job.label.to_string();
        let (Some(then), Some(now)) = (then.get(job.key)?, now.get(job.key)?) else {
            return Ok(Self { job: label, outcome: Outcome::Failed, compared: None });
        };
        let compared = Compared::new(&then, &now, tolerance);
        let outcome = match (compared.is_empty(), compared.other.is_empty()) {
            (true, _) => Outcome::Unknown,
            (false, true) => Outcome::Agrees,
            (false, false) => Outcome::Differs,
        };
        Ok(Self { job: label, outcome, compared: Some(compared) })
    }

    fn lines(&self) -> Vec<String> {
        let label = clean(&self.job);
        match &self.compared {
            Some(compared) => compared_lines(&label, compared),
            None => vec![format!("✗ {label} failed")],
        }
    }
}

/// Results of jobs that ran again.
#[derive(Debug, Default)]
struct Tally {
    /// Jobs that agree in every metric that could be compared.
    agree: usize,
    /// Number of these metrics.
    metrics: usize,
    /// Jobs that failed, or differ in a metric.
    differ: usize,
    /// Jobs without a metric that could be compared.
    unknown: usize,
}

impl Tally {
    fn of(jobs: &[RerunJob]) -> Self {
        let mut tally = Self::default();
        for RerunJob { outcome, compared, .. } in jobs {
            match outcome {
                Outcome::Agrees => {
                    tally.agree += 1;
                    tally.metrics += compared.as_ref().map_or(0, |compared| compared.same);
                }
                Outcome::Differs | Outcome::Failed => tally.differ += 1,
                Outcome::Unknown => tally.unknown += 1,
            }
        }
        tally
    }

    /// The summary: a job without a metric that could be compared does not agree.
    fn text(&self, jobs: usize) -> String {
        let jobs = count(jobs, "job");
        let Self { agree, metrics, differ, unknown } = *self;
        if agree + differ == 0 {
            return format!(
                "nothing could be compared: no metric of {jobs} that ran again is independent of the machine"
            );
        }
        let metrics = if agree > 0 { format!(", in {}", count(metrics, "metric")) } else { String::new() };
        let unknown = match unknown {
            0 => String::new(),
            unknown => format!("; nothing could be compared in {unknown}"),
        };
        format!("{agree} of {jobs} that ran again agree{metrics}{unknown}")
    }
}

/// The result for one job: the metrics that agree, that are not compared, and that differ.
fn compared_lines(label: &str, compared: &Compared) -> Vec<String> {
    let Compared { same, largest, left_out, other } = compared;
    let names = left_out.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if left_out.len() > MAX_NAMED { ", …" } else { "" };
    let measured = match left_out.len() {
        0 => String::new(),
        1 => format!("1 depends on the machine ({names})"),
        some => format!("{some} depend on the machine ({names}{more})"),
    };
    let first = if compared.is_empty() {
        let because = if measured.is_empty() { "it has no metric" } else { &measured };
        format!("· {label}  nothing could be compared: {because}")
    } else {
        let sign = if other.is_empty() { '✓' } else { '✗' };
        let most = if *largest > 0.0 { format!(" up to {largest:.1e}") } else { String::new() };
        let separator = if measured.is_empty() { "" } else { ", " };
        format!("{sign} {label}  {} the same{most}{separator}{measured}", count(*same, "metric"))
    };
    let differing = other.iter().map(|Differing { metric, then, now }| {
        let now = now.map_or_else(|| "nothing".to_owned(), |now| now.to_string());
        format!("    {metric}: {then} then, {now} now")
    });
    std::iter::once(first).chain(differing).collect()
}
