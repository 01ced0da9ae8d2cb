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
    batches::earlier_results,
    error::{Error, Exit},
    format::{clean, count, quoted},
    plan::{JobId, Plan, means},
    query::explain::{Cause, Explainer, Explanation, is_content, news},
    recipe::Place,
    record::{Adopted, Environment, Key, Record, without_keys},
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
    /// The comparison by which its record was adopted after a change of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    adopted: Option<Box<Adopted>>,
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
        let difference_of = |cause: &Cause| match cause.clone() {
            Cause::Changed { what, old, new, place } => {
                Self::Changed { what, old, new, at: place.map(|place| plan.sources().place(place)) }
            }
            Cause::Code { what, old, new, by, .. } => Self::Code { what, old, new, imported_by: by },
            Cause::Need { job, cached, causes } => {
                Self::Need { job: plan.job(job).label.to_string(), cached, causes: Self::all(plan, &causes) }
            }
            Cause::Gone { label } => Self::Gone { job: label },
        };
        causes.iter().map(difference_of).collect()
    }
}

pub(super) fn explain_job(results: &Path, args: &ExplainArgs) -> Result<Exit, Error> {
    let Prepared { plan, .. } = args.changes.prepare(results, std::slice::from_ref(&args.recipe), &[], false)?;
    let store = Store::open(results)?;
    let output = explained(&plan, &store, &args.job)?;
    if args.format.is_json() {
        let next = match output.state {
            "cached" => answer::line(results, ["show", &output.key.short()]),
            "stopped" => answer::with_words(results, "report", &plan.typed(), &[]),
            _ => answer::with_words(results, "run", &plan.typed(), &["--only".to_owned(), output.job.clone()]),
        };
        answer(&output, vec![next])?;
    } else {
        let environment_lines = output.environment.iter().filter(|_| args.environment).flat_map(Environment::lines);
        let lines: Vec<String> =
            output.lines.into_iter().chain(environment_lines.map(|line| format!("    {line}"))).collect();
        print(&(lines.join("\n") + "\n"))?;
    }
    Ok(Exit::Done)
}

/// The reason why a job will run, or the origin of its record.
pub(super) fn explained(plan: &Plan, store: &Store, name: &str) -> Result<Explained, Error> {
    let id = find(plan, name)?;
    let job = plan.job(id);
    let decided_jobs = DecidedJobs::read(plan, store).map_err(Error::io("cannot read the store"))?;
    let mut output = Explained {
        job: job.label.to_string(),
        key: job.key,
        state: "to run",
        record: None,
        causes: Vec::new(),
        then: Vec::new(),
        environment: None,
        adopted: None,
        lines: Vec::new(),
    };
    let choice = chosen(plan, id).map(|choice| format!("  {choice}"));
    if let Some(record) = store.get(job.key)? {
        output.state = "cached";
        output.lines = of_record(&record, &output.job, decided_jobs.of(id).map(|(_, reason)| reason), choice);
        output.environment = environment(store, &record);
        output.lines.extend(output.environment.as_ref().map(|environment| {
            let short_text = environment.short();
            format!("  its environment: {short_text}; `--environment` lists all of it")
        }));
        let Record { key, label, provenance, .. } = record;
        output.adopted = provenance.adopted;
        output.record = Some(Compared { key, job: label, started: provenance.started });
    } else if let Some((DecidedState::Stopped, reason)) = decided_jobs.of(id) {
        output.state = "stopped";
        let label = clean(&output.job).into_owned();
        output.lines = [format!("{label} does not run: it {}", clean(reason))].into_iter().chain(choice).collect();
        return Ok(output);
    } else {
        let release_reason = decided_jobs.of(id).map(|(_, reason)| reason);
        if release_reason.is_none() && plan.is_reserve(id) {
            output.state = "in reserve";
        }
        without_record(plan, store, id, release_reason, &mut output)?;
        output.lines.extend(choice);
    }
    output.lines.extend(arguments(&job.values).map(|arguments| format!("  it runs {}", clean(&arguments))));
    Ok(output)
}

/// Returns the environment in which a record was made, if it is known.
fn environment(store: &Store, record: &Record) -> Option<Environment> {
    store.environment(record.provenance.conditions.as_ref()?.environment.as_deref()?)
}

/// The origin of a record, in lines.
fn of_record(record: &Record, label: &str, decision_reason: Option<&str>, choice: Option<String>) -> Vec<String> {
    let Record { key, provenance, .. } = record;
    let time = crate::format::duration(provenance.seconds);
    let (label, host) = (clean(label), clean(&provenance.host));
    let age = ago(provenance.started);
    let mut lines = vec![match record.imported() {
        Some(source) => {
            let source = clean(source);
            format!("{label} is cached: record {} was imported from {source}; `sweep` did not run it", key.short())
        }
        None => format!("{label} is cached: record {} was made {age} on {host} in {time}", key.short()),
    }];
    lines.extend(provenance.sources().iter().map(|sentence| format!("  {}", clean(sentence))));
    lines.extend(choice);
    lines.extend(decision_reason.map(|reason| format!("  {}", clean(reason))));
    let gpu = provenance.conditions.as_ref().and_then(|conditions| conditions.gpu.as_ref());
    lines.extend(gpu.map(|gpu| format!("  it had {}", gpu.describe())));
    lines
}

/// Explains why a job without a record will run; `release_reason` is the reason of the decision that lets it.
fn without_record(
    plan: &Plan,
    store: &Store,
    id: JobId,
    release_reason: Option<&str>,
    output: &mut Explained,
) -> Result<(), Error> {
    let job = plan.job(id);
    let entries = store.index().map_err(Error::io("cannot read the store"))?;
    let explanation = Explainer::new(plan, &entries).with_manifests(store.manifests()).explain(id);
    let verb_phrase = match (release_reason, output.state) {
        (Some(reason), _) => format!("will run, because {}", clean(reason)),
        (None, "in reserve") => "is in reserve: it runs if results require it".to_owned(),
        (None, _) => "will run".to_owned(),
    };
    let label = clean(&output.job).into_owned();
    let lines = &mut output.lines;
    lines.push(format!("{label} {verb_phrase}: no record has its key {}", job.key.short()));
    describe(plan, &explanation, lines);
    if let (Some(policy), Some(code)) = (job.policy.adopt, &job.code)
        && let Some(adoptable) = earlier_results(store).adoptable(plan, id, code)?
    {
        let from = adoptable.record.key.short();
        let after = policy.after;
        lines.push(format!(
            "  if its steps up to {after} are bit-identical to those of record {from}, it adopts that record"
        ));
    }
    if job.shares_gpu() {
        let history = History::read(store, plan).map_err(Error::io("cannot read the store"))?;
        lines.extend(describe_gpu(job, &history.gpus).map(|part| format!("  it shares a GPU: {part}")));
    }
    output.then = downstream(plan, id, store);
    if !output.then.is_empty() {
        lines.push(format!("  then also: {}", output.then.join(", ")));
    }
    let nearest = explanation.nearest;
    output.record = nearest.map(|entry| Compared { key: entry.key, job: entry.label.clone(), started: entry.started });
    output.causes = Difference::all(plan, &explanation.causes);
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
    let words = arguments.iter().map(|argument| quoted(&without_keys(argument)));
    Some(words.collect::<Vec<_>>().join(" "))
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
                let line = if is_content(old, new) {
                    format!("{indent}{what} changed{by}")
                } else {
                    format!("{indent}{what}   {} → {}{by}", clean(old), clean(new))
                };
                // A folder may be known by two facts.
                if !lines.contains(&line) {
                    lines.push(line);
                }
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
    let dependents = plan.dependents(id);
    let mut names = Vec::new();
    for study in &plan.studies {
        let recipe = &study.recipe;
        let runs_again = |job: &JobId| *job == id || (dependents.contains(job) && !store.contains(plan.job(*job).key));
        let numbers: Vec<usize> =
            study.steps.iter().map(|jobs| jobs.iter().filter(|(_, job)| runs_again(job)).count()).collect();
        for (step, (jobs, number)) in recipe.steps.iter().zip(study.steps.iter().zip(&numbers)) {
            let number = number - usize::from(jobs.iter().any(|(_, job)| *job == id));
            if number > 0 {
                names.push(format!("{} of {}", count(number, "job"), step.name.value));
            }
        }
        let outputs = recipe.shown().filter(|output| output.steps.iter().any(|step| numbers[*step] > 0));
        names.extend(outputs.map(|output| format!("{} {}", output.kind, output.name)));
    }
    names
}

/// The job that a label (with its axes in any order and its values in any spelling) or the beginning of a key names.
fn find(plan: &Plan, name: &str) -> Result<JobId, Error> {
    let has_several = plan.studies.len() > 1;
    let labels: Vec<(String, JobId)> = plan
        .studies
        .iter()
        .flat_map(|study| {
            let prefix = if has_several { format!("{}:", study.recipe.name) } else { String::new() };
            let jobs = study.recipe.steps.iter().zip(&study.steps);
            jobs.flat_map(move |(step, jobs)| {
                let prefix = format!("{prefix}{}", step.name.value);
                jobs.iter().map(move |(point, id)| (format!("{prefix}/{point}"), *id))
            })
        })
        .collect();
    let exact_match = labels.iter().find(|(label, _)| label.trim_end_matches('/') == name);
    if let Some((_, id)) = exact_match.or_else(|| labels.iter().find(|(label, _)| means(label, name))) {
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

fn ago(start: Timestamp) -> String {
    let age = Timestamp::now().since(start);
    let rounding = SpanRound::new().largest(Unit::Hour).smallest(Unit::Minute);
    match age.and_then(|span| span.round(rounding)) {
        Ok(span) if span.is_zero() || span.is_negative() => "just now".to_owned(),
        Ok(span) if span.get_hours() >= 48 => format!("{} days ago", span.get_hours() / 24),
        Ok(span) if span.get_hours() > 0 => format!("{} h ago", span.get_hours()),
        Ok(span) => format!("{} min ago", span.get_minutes()),
        Err(_) => format!("at {start}"),
    }
}
