//! `sweep explain`.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::{SpanRound, Timestamp, Unit};
use serde::Serialize;
use sweep_job::{
    TaskSpec as _, Value, Values,
    tasks::{Command, FLAGS},
};

use super::{
    ChangeArgs, Prepared,
    answer::{self, FormatArgs, answer},
    print,
};
use crate::{
    analysis::search::{DecidedJobs, DecidedState},
    error::{Error, Exit},
    format::{clean, count, quoted},
    plan::{JobId, Plan, means},
    query::explain::{Cause, Explainer, Explanation, is_content, news},
    recipe::Place,
    record::{Environment, Key, Record, without_keys},
    run::{History, describe_gpu},
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The recipe or sweep file.
    recipe: PathBuf,
    /// The job: its step and point, as `sweep plan --list` prints them, or a prefix of its key.
    job: String,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Show every program, library and package of the environment in which the record was made.
    #[arg(long)]
    environment: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Explanation of a job.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    job: String,
    key: Key,
    /// The state that the job has in the plan.
    state: &'static str,
    /// The job's record, else the nearest record.
    record: Option<Compared>,
    /// Differences from the nearest record.
    causes: Vec<Difference>,
    /// The jobs that run after the job, and the outputs that are made anew.
    then: Vec<String>,
    /// The environment in which its record was made, if it has a record and the program was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Environment>,
    /// The explanation for people.
    pub(super) lines: Vec<String>,
}

/// A record that a job has or is compared with.
#[derive(Debug, Serialize)]
struct Compared {
    key: Key,
    job: String,
    started: Timestamp,
}

/// A [`Cause`] whose job and place have names.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Difference {
    Changed { what: String, old: String, new: String, at: Option<Place> },
    Code { what: String, old: String, new: String, imported_by: Option<String> },
    Need { job: String, cached: bool, causes: Vec<Difference> },
    Gone { job: String },
}

impl Difference {
    fn all(plan: &Plan, causes: &[Cause]) -> Vec<Self> {
        let one = |cause: &Cause| match cause.clone() {
            Cause::Changed { what, old, new, place } => {
                Self::Changed { what, old, new, at: place.map(|place| plan.sources().place(place)) }
            }
            Cause::Code { what, old, new, by, .. } => Self::Code { what, old, new, imported_by: by },
            Cause::Need { job, cached, causes } => {
                Self::Need { job: plan.job(job).label.to_string(), cached, causes: Self::all(plan, &causes) }
            }
            Cause::Gone { label } => Self::Gone { job: label },
        };
        causes.iter().map(one).collect()
    }
}

pub(super) fn explain_job(results: &Path, args: &ExplainArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.changes.prepare(results, std::slice::from_ref(&args.recipe), &[], false)?;
    let store = Store::open(results)?;
    let explained = explained(&plan, &store, &args.job)?;
    if args.format.is_json() {
        let next = match explained.state {
            "cached" => answer::line(results, ["show", &explained.key.short()]),
            "stopped" => answer::with_words(results, "report", &plan.typed(), &[]),
            _ => answer::with_words(results, "run", &plan.typed(), &["--only".to_owned(), explained.job.clone()]),
        };
        answer(&explained, vec![next])?;
    } else {
        let all = explained.environment.iter().filter(|_| args.environment).flat_map(Environment::lines);
        let lines: Vec<String> = explained.lines.into_iter().chain(all.map(|line| format!("    {line}"))).collect();
        print(&(lines.join("\n") + "\n"))?;
    }
    Ok(Exit::Done)
}

/// The reason why a job will run, or the origin of its record.
pub(super) fn explained(plan: &Plan, store: &Store, name: &str) -> Result<Explained, Error> {
    let id = find(plan, name)?;
    let job = plan.job(id);
    let decided_jobs = DecidedJobs::read(plan, store).map_err(Error::io("cannot read the store"))?;
    let mut explained = Explained {
        job: job.label.to_string(),
        key: job.key,
        state: "to run",
        record: None,
        causes: Vec::new(),
        then: Vec::new(),
        environment: None,
        lines: Vec::new(),
    };
    let chosen = chosen(plan, id).map(|chosen| format!("  {chosen}"));
    if let Some(record) = store.get(job.key)? {
        explained.state = "cached";
        explained.lines = of_record(&record, &explained.job, decided_jobs.of(id).map(|(_, because)| because), chosen);
        explained.environment = environment(store, &record);
        explained.lines.extend(explained.environment.as_ref().map(|used| {
            let short = used.short();
            format!("  its environment: {short}; `--environment` lists all of it")
        }));
        let Record { key, label, provenance, .. } = record;
        explained.record = Some(Compared { key, job: label, started: provenance.started });
    } else if let Some((DecidedState::Stopped, because)) = decided_jobs.of(id) {
        explained.state = "stopped";
        let label = clean(&explained.job).into_owned();
        explained.lines = [format!("{label} does not run: it {}", clean(because))].into_iter().chain(chosen).collect();
        return Ok(explained);
    } else {
        let released = decided_jobs.of(id).map(|(_, because)| because);
        if released.is_none() && plan.is_reserve(id) {
            explained.state = "in reserve";
        }
        without_record(plan, store, id, released, &mut explained)?;
        explained.lines.extend(chosen);
    }
    explained.lines.extend(arguments(&job.values).map(|arguments| format!("  it runs {}", clean(&arguments))));
    Ok(explained)
}

/// Returns the environment in which a record was made, if it is known.
fn environment(store: &Store, record: &Record) -> Option<Environment> {
    store.environment(record.provenance.conditions.as_ref()?.environment.as_deref()?)
}

/// The origin of a record, in lines.
fn of_record(record: &Record, label: &str, decided: Option<&str>, chosen: Option<String>) -> Vec<String> {
    let Record { key, provenance, .. } = record;
    let took = crate::format::duration(provenance.seconds);
    let (label, host) = (clean(label), clean(&provenance.host));
    let made = ago(provenance.started);
    let mut lines = vec![match record.imported() {
        Some(source) => {
            let source = clean(source);
            format!("{label} is cached: record {} was imported from {source}; `sweep` did not run it", key.short())
        }
        None => format!("{label} is cached: record {} was made {made} on {host} in {took}", key.short()),
    }];
    let measured = provenance.measured.iter().flat_map(|measured| measured.sentences());
    lines.extend(measured.map(|sentence| format!("  {}", clean(&sentence))));
    lines.extend(chosen);
    lines.extend(decided.map(|because| format!("  {}", clean(because))));
    let gpu = provenance.conditions.as_ref().and_then(|conditions| conditions.gpu.as_ref());
    lines.extend(gpu.map(|gpu| format!("  it had {}", gpu.describe())));
    lines
}

/// Explains why a job without a record will run; `released` is the decision that lets it.
fn without_record(
    plan: &Plan,
    store: &Store,
    id: JobId,
    released: Option<&str>,
    explained: &mut Explained,
) -> Result<(), Error> {
    let job = plan.job(id);
    let entries = store.index().map_err(Error::io("cannot read the store"))?;
    let explanation = Explainer::new(plan, &entries).with_manifests(store.manifests()).explain(id);
    let will = match (released, explained.state) {
        (Some(because), _) => format!("will run, because {}", clean(because)),
        (None, "in reserve") => "is in reserve: it runs if results decide so".to_owned(),
        (None, _) => "will run".to_owned(),
    };
    let label = clean(&explained.job).into_owned();
    let lines = &mut explained.lines;
    lines.push(format!("{label} {will}: no record has its key {}", job.key.short()));
    describe(plan, &explanation, lines);
    if job.shares_gpu() {
        let history = History::read(store, plan).map_err(Error::io("cannot read the store"))?;
        lines.extend(describe_gpu(job, &history.gpus).map(|part| format!("  it shares a GPU: {part}")));
    }
    explained.then = downstream(plan, id, store);
    if !explained.then.is_empty() {
        lines.push(format!("  then also: {}", explained.then.join(", ")));
    }
    let nearest = explanation.nearest;
    explained.record =
        nearest.map(|entry| Compared { key: entry.key, job: entry.label.clone(), started: entry.started });
    explained.causes = Difference::all(plan, &explanation.causes);
    Ok(())
}

/// The decision by which the point of a job is in the plan, if a decision chose it.
fn chosen(plan: &Plan, id: JobId) -> Option<String> {
    plan.studies.iter().find_map(|study| {
        let step_of = |index: usize| study.recipe.steps.get(index);
        study.searched.iter().find_map(|(index, searched)| {
            let step = step_of(*index)?;
            let (point, _) = study.steps.get(*index)?.iter().find(|(_, job)| *job == id)?;
            let (batch, place) = searched.place(point)?;
            if let Some(search) = step.confirms.and_then(step_of) {
                return Some(format!("it confirms configuration {} of the best of `{}`", place + 1, search.name.value));
            }
            let suggest = step.search.as_ref()?.suggest.as_ref()?;
            let (number, size) = (place + 1, searched.batches().get(batch).map_or(0, Vec::len));
            Some(format!(
                "its point was chosen by {}: configuration {number} of {size} in batch {} of {}",
                suggest.source.name(),
                batch + 1,
                suggest.batches
            ))
        })
    })
}

/// The arguments of a program whose `argv` has `${{ flags }}`, for a shell; values of needed jobs are shown as expressions.
fn arguments(values: &Values) -> Option<String> {
    let Some(Value::List(argv)) = values.get("argv") else { return None };
    argv.iter().find(|item| item.as_text() == Some(FLAGS))?;
    let arguments = Command::build(values)?.arguments();
    let shown = arguments.iter().map(|argument| quoted(&without_keys(argument)));
    Some(shown.collect::<Vec<_>>().join(" "))
}

fn describe(plan: &Plan, explanation: &Explanation<'_>, lines: &mut Vec<String>) {
    let Some(nearest) = explanation.nearest else {
        lines.push("  no similar job has run: the store has no record of this task".to_owned());
        return;
    };
    let label = clean(&nearest.label).into_owned();
    lines.push(format!(
        "  the nearest record, {} ({label}, {}), differs in",
        nearest.key.short(),
        ago(nearest.started)
    ));
    list(plan, &explanation.causes, 2, lines);
}

fn list(plan: &Plan, causes: &[Cause], depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    for cause in causes {
        match cause {
            Cause::Changed { what, old, new, place } => {
                let place = place.map(|place| format!("   {}", plan.sources().location(place))).unwrap_or_default();
                let what = clean(what);
                lines.push(if is_content(old, new) {
                    format!("{indent}{what} changed{place}")
                } else {
                    format!("{indent}{what}   {} → {}{place}", clean(old), clean(new))
                });
            }
            Cause::Code { what, old, new, by, .. } => {
                let by = by.as_ref().map(|by| format!("   imported by {}", clean(by))).unwrap_or_default();
                let what = clean(what);
                lines.push(if is_content(old, new) {
                    format!("{indent}{what} changed{by}")
                } else {
                    format!("{indent}{what}   {} → {}{by}", clean(old), clean(new))
                });
            }
            Cause::Need { job, cached, causes } if causes.is_empty() => {
                let label = plan.job(*job).label.to_string();
                lines.push(format!("{indent}it needs {}, {}", clean(&label), news(*cached)));
            }
            Cause::Need { job, causes, .. } => {
                lines.push(format!("{indent}it needs {}, which differs in", clean(&plan.job(*job).label.to_string())));
                list(plan, causes, depth + 1, lines);
            }
            Cause::Gone { label } => lines.push(format!("{indent}it does not need {} any more", clean(label))),
        }
    }
}

/// Consequences of this job's run: steps with the numbers of their jobs, and the outputs made from them.
fn downstream(plan: &Plan, id: JobId, store: &Store) -> Vec<String> {
    let reached = plan.dependents(id);
    let mut names = Vec::new();
    for study in &plan.studies {
        let recipe = &study.recipe;
        let again = |job: &JobId| *job == id || (reached.contains(job) && !store.contains(plan.job(*job).key));
        let numbers: Vec<usize> =
            study.steps.iter().map(|jobs| jobs.iter().filter(|(_, job)| again(job)).count()).collect();
        for (step, (jobs, number)) in recipe.steps.iter().zip(study.steps.iter().zip(&numbers)) {
            let number = number - usize::from(jobs.iter().any(|(_, job)| *job == id));
            if number > 0 {
                names.push(format!("{} of {}", count(number, "job"), step.name.value));
            }
        }
        let shown = recipe.shown().filter(|shown| shown.steps.iter().any(|step| numbers[*step] > 0));
        names.extend(shown.map(|shown| format!("{} {}", shown.kind, shown.name)));
    }
    names
}

/// The job that a label (with its axes in any order and its values in any spelling) or the beginning of a key names.
fn find(plan: &Plan, name: &str) -> Result<JobId, Error> {
    let several = plan.studies.len() > 1;
    let labels: Vec<(String, JobId)> = plan
        .studies
        .iter()
        .flat_map(|study| {
            let prefix = if several { format!("{}:", study.recipe.name) } else { String::new() };
            let jobs = study.recipe.steps.iter().zip(&study.steps);
            jobs.flat_map(move |(step, jobs)| {
                let prefix = format!("{prefix}{}", step.name.value);
                jobs.iter().map(move |(point, id)| (format!("{prefix}/{point}"), *id))
            })
        })
        .collect();
    let exact = labels.iter().find(|(label, _)| label.trim_end_matches('/') == name);
    if let Some((_, id)) = exact.or_else(|| labels.iter().find(|(label, _)| means(label, name))) {
        return Ok(*id);
    }
    let hex = name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut by_key = plan.jobs().filter(|(_, job)| hex && job.key.to_string().starts_with(name));
    if let (Some((id, _)), None) = (by_key.next(), by_key.next()) {
        return Ok(id);
    }
    let names: Vec<&str> = labels.iter().map(|(label, _)| label.trim_end_matches('/')).take(50).collect();
    let help = crate::recipe::suggest(name, "jobs", names).unwrap_or_default();
    Err(Error::NotFound { message: format!("the recipe has no job `{name}`"), help })
}

fn ago(started: Timestamp) -> String {
    let since = Timestamp::now().since(started);
    let largest = SpanRound::new().largest(Unit::Hour).smallest(Unit::Minute);
    match since.and_then(|span| span.round(largest)) {
        Ok(span) if span.is_zero() || span.is_negative() => "just now".to_owned(),
        Ok(span) if span.get_hours() >= 48 => format!("{} days ago", span.get_hours() / 24),
        Ok(span) if span.get_hours() > 0 => format!("{} h ago", span.get_hours()),
        Ok(span) => format!("{} min ago", span.get_minutes()),
        Err(_) => format!("at {started}"),
    }
}
