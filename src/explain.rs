//! Why a job will run: which field of its identity no record has, what it was in the nearest one, and where it is decided.

use std::collections::BTreeSet;

use sweep_job::{Task, Value};

use crate::{
    plan::{JobId, Key, Plan, without_keys},
    recipe::Span,
    store::Record,
};

/// What sets a job apart from the nearest record.
#[derive(Debug)]
pub struct Explanation<'a> {
    /// The record of the same task that differs least; `None` if there is none of this task.
    pub nearest: Option<&'a Record>,
    /// How it differs, the causes of needed jobs inside.
    pub causes: Vec<Cause>,
}

/// One difference.
#[derive(Debug)]
pub enum Cause {
    /// Another value, or another content of an input, or another backend.
    Changed {
        /// What: a parameter's name, `backend`, `task revision`, or `key format`.
        what: String,
        /// As it was.
        old: String,
        /// As it is.
        new: String,
        /// Where that is decided, if it is in the recipe.
        place: Option<Span>,
    },
    /// A needed job is another one.
    Need {
        /// The job that is needed now.
        job: JobId,
        /// How it differs from the one that was needed; empty if there is none to compare with.
        causes: Vec<Cause>,
    },
    /// A job was needed that is not any more.
    Gone {
        /// What it was called.
        label: String,
    },
}

/// Compares a job with all `records`.
pub fn explain<'a>(plan: &Plan, id: JobId, records: &'a [Record]) -> Explanation<'a> {
    let job = plan.job(id);
    let same_task = records.iter().filter(|record| record.identity.task == job.identity.task);
    let step = |record: &Record| record.label.split('/').next() == Some(job.label.step.as_str());
    let nearest = same_task
        .map(|record| (distance(plan, id, record), !step(record), std::cmp::Reverse(record.provenance.started), record))
        .min_by_key(|(distance, other_step, age, _)| (*distance, *other_step, *age))
        .map(|(.., record)| record);
    let causes = nearest.map(|record| causes(plan, id, record, records)).unwrap_or_default();
    Explanation { nearest, causes }
}

/// How many fields differ; those of needed jobs count as one each.
fn distance(plan: &Plan, id: JobId, record: &Record) -> usize {
    let (now, then) = (&plan.job(id).identity, &record.identity);
    let names = now.params.keys().chain(then.params.keys().filter(|name| !now.params.contains_key(*name)));
    let params = names.filter(|name| now.params.get(*name) != then.params.get(*name)).count();
    let inputs = now.inputs.keys().chain(then.inputs.keys().filter(|name| !now.inputs.contains_key(*name)));
    let inputs = inputs.filter(|name| now.inputs.get(*name) != then.inputs.get(*name)).count();
    let needs = now.needs.iter().filter(|key| !then.needs.contains(key)).count();
    let gone = then.needs.iter().filter(|key| !now.needs.contains(key)).count();
    let rest = usize::from(now.revision != then.revision)
        + usize::from(now.backend != then.backend)
        + usize::from(now.format != then.format);
    params + inputs + rest + needs.max(gone)
}

fn causes(plan: &Plan, id: JobId, record: &Record, records: &[Record]) -> Vec<Cause> {
    let job = plan.job(id);
    let (now, then) = (&job.identity, &record.identity);
    let mut causes = Vec::new();
    let mut changed = |what: &str, old: String, new: String, place| {
        causes.push(Cause::Changed { what: what.to_owned(), old, new, place });
    };
    if now.format != then.format {
        changed("key format", then.format.to_string(), now.format.to_string(), None);
    }
    if now.revision != then.revision {
        changed("task revision", then.revision.to_string(), now.revision.to_string(), None);
    }
    if now.backend != then.backend {
        let name = |backend: Option<sweep_job::Backend>| backend.map_or("none", sweep_job::Backend::name).to_owned();
        changed("backend", name(then.backend), name(now.backend), None);
    }
    // In the order of the task's declaration, which is the order of its documentation.
    for param in Task::info(&now.task).into_iter().flat_map(sweep_job::TaskInfo::params) {
        let place = || plan.place(id, param.name);
        let digest = |digest: Option<&String>, value: Option<&Value>| match (digest, value) {
            (Some(digest), _) => format!("content {}", digest.chars().take(12).collect::<String>()),
            (None, value) => value.map_or_else(|| "nothing".to_owned(), ToString::to_string),
        };
        // A list's or a map's inputs stand under `name.1`, `name.key`.
        let own =
            |name: &str| name == param.name || name.strip_prefix(param.name).is_some_and(|rest| rest.starts_with('.'));
        let names: BTreeSet<&String> = now.inputs.keys().chain(then.inputs.keys()).filter(|name| own(name)).collect();
        let mut as_input = false;
        for name in names {
            let (old, new) = (then.inputs.get(name), now.inputs.get(name));
            if old != new {
                let value = |values: &sweep_job::Values| values.get(param.name).cloned();
                let (old, new) =
                    (digest(old, value(&record.params).as_ref()), digest(new, value(&job.values).as_ref()));
                changed(name, old, new, place());
                as_input = true;
            }
        }
        if as_input {
            continue;
        }
        let (old, new) = (then.params.get(param.name), now.params.get(param.name));
        let or_default = |value: Option<&Value>| match value {
            Some(value) => without_keys(&value.to_string()),
            None => format!("{} (default)", (param.default)()),
        };
        let (old_text, new_text) = (or_default(old), or_default(new));
        // The same result of another job: what is different about that job is told as a change of the need.
        if old != new && old_text != new_text {
            changed(param.name, old_text, new_text, place());
        }
    }
    causes.extend(need_causes(plan, id, record, records));
    causes
}

fn need_causes(plan: &Plan, id: JobId, record: &Record, records: &[Record]) -> Vec<Cause> {
    let mut before: Vec<Key> = record.identity.needs.clone();
    let mut new = Vec::new();
    for need in plan.needs(id) {
        let key = plan.job(need).key;
        match before.iter().position(|earlier| *earlier == key) {
            Some(index) => drop(before.remove(index)),
            None => new.push(need),
        }
    }
    // What was needed then and is not needed now is what the new ones are compared with.
    let mut before: Vec<&Record> = records.iter().filter(|record| before.contains(&record.key)).collect();
    new.sort_unstable();
    let mut causes = Vec::new();
    for job in new {
        let same_task =
            before.iter().enumerate().filter(|(_, earlier)| earlier.identity.task == plan.job(job).identity.task);
        let nearest = same_task.min_by_key(|(_, earlier)| distance(plan, job, earlier)).map(|(index, _)| index);
        let inner = nearest.map(|index| self::causes(plan, job, before.remove(index), records)).unwrap_or_default();
        causes.push(Cause::Need { job, causes: inner });
    }
    causes.extend(before.into_iter().map(|gone| Cause::Gone { label: gone.label.clone() }));
    causes
}
