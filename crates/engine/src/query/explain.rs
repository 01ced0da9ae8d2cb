//! Reason why a job will run: the field of its identity that no record has, its old value in the nearest record, and
//! its place in the recipe.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use sweep_job::{Task, TaskInfo, Value, Values};

use super::difference::{Difference, differences};
use crate::{
    format::{clean, count},
    plan::{Code, JobId, Manifests, Plan},
    recipe::Span,
    record::{ABSENT, Identity, Key, fact, shown_id, without_keys},
    store::Entry,
};

/// Compares the jobs of a plan with the records in the store.
#[derive(Debug)]
pub struct Explainer<'a> {
    plan: &'a Plan,
    by_key: HashMap<Key, &'a Entry>,
    by_label: HashMap<&'a str, Vec<&'a Entry>>,
    by_task: HashMap<&'a str, Vec<&'a Entry>>,
    manifests: RefCell<Manifests>,
}

/// Difference between a job and the nearest record.
#[derive(Debug)]
pub struct Explanation<'a> {
    /// The record of the same task with the fewest differences; `None` if the task has no records.
    pub nearest: Option<&'a Entry>,
    /// Differences, with the causes of needed jobs inside.
    pub causes: Vec<Cause>,
}

/// One difference.
#[derive(Debug, Clone)]
pub enum Cause {
    /// Another value, or another content of an input, or another backend.
    Changed {
        /// A parameter's name, `backend`, `task revision`, or `key format`.
        what: String,
        /// The earlier value.
        old: String,
        /// The current value.
        new: String,
        /// Its place in the recipe, if it has one.
        place: Option<Span>,
    },
    /// A file or a package that the job was observed to read has another content.
    Code {
        /// The file's path, or the package's name.
        what: String,
        /// The earlier value.
        old: String,
        /// The current value.
        new: String,
        /// File that imported it, if it is known.
        by: Option<String>,
        /// Number of jobs of the plan that read it.
        readers: usize,
    },
    /// A needed job is another one.
    Need {
        /// The job that is needed now.
        job: JobId,
        /// True if it has a record.
        cached: bool,
        /// Differences from the previously needed job; empty without such a job.
        causes: Vec<Cause>,
    },
    /// A job was needed that is not any more.
    Gone {
        /// Previous name.
        label: String,
    },
}

/// A digest is shown after this word.
pub(super) const CONTENT: &str = "content ";

/// The digest of the program, for people, where it is part of the key.
pub(super) fn program(identity: &Identity) -> String {
    let digest = |digest: &String| format!("{CONTENT}{}", digest.chars().take(12).collect::<String>());
    identity.program.as_ref().map_or_else(|| "–".to_owned(), digest)
}
/// Number of records that a job is compared with, if many jobs are explained at once and no record has its name.
const MAX_COMPARED: usize = 200;

impl<'a> Explainer<'a> {
    /// Compares with these records.
    pub fn new(plan: &'a Plan, entries: &'a [Entry]) -> Self {
        let mut by_label: HashMap<&str, Vec<&Entry>> = HashMap::new();
        let mut by_task: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in entries {
            by_label.entry(unprefixed(&entry.label)).or_default().push(entry);
            by_task.entry(&entry.identity.task).or_default().push(entry);
        }
        for entries in by_task.values_mut() {
            entries.sort_by_key(|entry| Reverse(entry.started));
        }
        let by_key = entries.iter().map(|entry| (entry.key, entry)).collect();
        Self { plan, by_key, by_label, by_task, manifests: RefCell::default() }
    }

    /// Adds the manifests of the files that the jobs of records were observed to read.
    #[must_use]
    pub fn with_manifests(self, manifests: Manifests) -> Self {
        Self { manifests: RefCell::new(manifests), ..self }
    }

    /// Compares a job with every record.
    pub fn explain(&self, id: JobId) -> Explanation<'a> {
        let task = self.by_task.get(self.plan.job(id).identity.task.as_str());
        self.among(id, task.map(Vec::as_slice).unwrap_or_default())
    }

    /// Compares a job with the records that had its name, or else with some of the latest: quick enough for all jobs of
    /// a large plan.
    pub fn explain_quickly(&self, id: JobId) -> Explanation<'a> {
        let job = self.plan.job(id);
        let label = job.label.to_string();
        let entries = self.by_label.get(unprefixed(&label)).into_iter().flatten();
        let entries: Vec<&Entry> = entries.filter(|entry| entry.identity.task == job.identity.task).copied().collect();
        if !entries.is_empty() {
            return self.among(id, &entries);
        }
        let task = self.by_task.get(job.identity.task.as_str()).map(Vec::as_slice).unwrap_or_default();
        self.among(id, &task[..task.len().min(MAX_COMPARED)])
    }

    fn among(&self, id: JobId, entries: &[&'a Entry]) -> Explanation<'a> {
        let step = self.plan.job(id).label.step.as_str();
        let own_step = |entry: &Entry| unprefixed(&entry.label).split('/').next() == Some(step);
        let ranking =
            entries.iter().map(|entry| (self.distance(id, entry), !own_step(entry), Reverse(entry.started), *entry));
        let nearest = ranking.min_by_key(|(distance, other_step, age, _)| (*distance, *other_step, *age));
        let nearest = nearest.map(|(.., entry)| entry);
        let causes = nearest.map(|entry| self.causes(id, entry)).unwrap_or_default();
        Explanation { nearest, causes }
    }

    /// Number of fields that differ. Each needed job counts as one field.
    fn distance(&self, id: JobId, entry: &Entry) -> usize {
        let (identity, recorded_identity) = (&self.plan.job(id).identity, &entry.identity);
        let names = identity
            .params
            .keys()
            .chain(recorded_identity.params.keys().filter(|name| !identity.params.contains_key(name)));
        let params = names.filter(|name| identity.params.get(name) != recorded_identity.params.get(name)).count();
        let inputs = identity
            .inputs
            .keys()
            .chain(recorded_identity.inputs.keys().filter(|name| !identity.inputs.contains_key(*name)));
        let inputs = inputs.filter(|name| identity.inputs.get(*name) != recorded_identity.inputs.get(*name)).count();
        // Both are sorted.
        let needs = identity.needs.iter().filter(|key| !recorded_identity.needs.contains(*key)).count();
        let removed_needs = recorded_identity.needs.iter().filter(|key| !identity.needs.contains(*key)).count();
        let other_fields = usize::from(identity.revision != recorded_identity.revision)
            + usize::from(identity.backend != recorded_identity.backend)
            + usize::from(identity.format != recorded_identity.format)
            + usize::from(identity.code != recorded_identity.code)
            + usize::from(identity.program != recorded_identity.program);
        params + inputs + other_fields + needs.max(removed_needs)
    }

    fn causes(&self, id: JobId, entry: &Entry) -> Vec<Cause> {
        let (identity, recorded_identity) = (&self.plan.job(id).identity, &entry.identity);
        let mut causes = Vec::new();
        let mut add_cause = |what: &str, old: String, new: String, place| {
            causes.push(Cause::Changed { what: what.to_owned(), old, new, place });
        };
        if identity.format != recorded_identity.format {
            add_cause("key format", recorded_identity.format.to_string(), identity.format.to_string(), None);
        }
        if identity.revision != recorded_identity.revision {
            add_cause("task revision", recorded_identity.revision.to_string(), identity.revision.to_string(), None);
        }
        if identity.program != recorded_identity.program {
            add_cause("program", program(recorded_identity), program(identity), None);
        }
        if identity.backend != recorded_identity.backend {
            let name =
                |backend: Option<sweep_job::Backend>| backend.map_or("none", sweep_job::Backend::name).to_owned();
            add_cause("backend", name(recorded_identity.backend), name(identity.backend), None);
        }
        // In the order of the task's declaration, which is the order of its documentation.
        for param in Task::info(&identity.task).into_iter().flat_map(TaskInfo::params) {
            let place = || self.plan.place(id, param.name);
            let text_of = |value: Option<&Value>| match value {
                Some(value) => without_keys(&value.to_string()),
                None => format!("{} (default)", (param.default)()),
            };
            let content = |digest: Option<&String>, value: Option<&Value>| match digest {
                Some(digest) => format!("content {}", digest.chars().take(12).collect::<String>()),
                None => text_of(value),
            };
            let (old, new) = (recorded_identity.params.get(param.name), identity.params.get(param.name));
            // A list's or a map's inputs stand under `name.1`, `name.key`.
            let is_own = |name: &str| {
                name == param.name || name.strip_prefix(param.name).is_some_and(|rest| rest.starts_with('.'))
            };
            let values = &self.plan.job(id).values;
            let names: BTreeSet<&String> =
                identity.inputs.keys().chain(recorded_identity.inputs.keys()).filter(|name| is_own(name)).collect();
            let mut as_input = false;
            for name in names {
                let (old_digest, new_digest) = (recorded_identity.inputs.get(name), identity.inputs.get(name));
                if old_digest != new_digest {
                    let file = file_of(values, name).unwrap_or_else(|| name.clone());
                    add_cause(&file, content(old_digest, old), content(new_digest, new), place());
                    as_input = true;
                }
            }
            // Results of different jobs with equal texts: the change of the needed job is reported instead.
            if as_input || old == new || text_of(old) == text_of(new) {
                continue;
            }
            match (old, new) {
                (Some(old), Some(new)) => {
                    for Difference { what, old, new } in differences(param.name, old, new) {
                        add_cause(&what, without_keys(&old), without_keys(&new), place());
                    }
                }
                _ => add_cause(param.name, text_of(old), text_of(new), place()),
            }
        }
        causes.extend(self.code_causes(id, entry));
        causes.extend(self.need_causes(id, entry));
        causes
    }

    /// Files and packages that the job of the record read and that are different now.
    fn code_causes(&self, id: JobId, entry: &Entry) -> Vec<Cause> {
        let Some(code) = self.plan.job(id).code.as_deref() else { return Vec::new() };
        let set = entry.identity.base_key().ok().and_then(|base| self.manifests.borrow_mut().set_of(base, entry.key));
        let Some(set) = set else { return Vec::new() };
        let mut causes = Vec::new();
        let text_of = |digest: &str| match digest {
            ABSENT => "gone".to_owned(),
            digest => format!("{CONTENT}{}", digest.chars().take(12).collect::<String>()),
        };
        for job_file in &code.files {
            let Some(record_file) =
                set.files.get(&job_file.path).filter(|record_file| record_file.digest != job_file.digest)
            else {
                continue;
            };
            let readers = self.readers(|code| code.files.iter().any(|file| file.path == job_file.path));
            let (old, new) = (text_of(&record_file.digest), text_of(&job_file.digest));
            causes.push(Cause::Code { what: job_file.path.clone(), old, new, by: record_file.by.clone(), readers });
        }
        for job_fact in &code.facts {
            let record_fact =
                set.facts.get(&job_fact.path).filter(|record_fact| fact::is_other(record_fact, &job_fact.digest));
            let Some(record_fact) = record_fact else { continue };
            let readers = self.readers(|code| code.facts.iter().any(|fact| fact.path == job_fact.path));
            let (what, old, new) = fact::change(&job_fact.path, record_fact, &job_fact.digest, CONTENT);
            causes.push(Cause::Code { what, old, new, by: None, readers });
        }
        for (name, folder, version) in &code.packages {
            let record_package = set
                .packages
                .get(name)
                .filter(|record_package| record_package.folder == *folder && record_package.version != *version);
            let Some(record_package) = record_package else { continue };
            let readers = self.readers(|code| code.packages.iter().any(|(other, ..)| other == name));
            let new = if version == ABSENT { "gone".to_owned() } else { version.clone() };
            causes.push(Cause::Code {
                what: name.clone(),
                old: record_package.version.clone(),
                new,
                by: None,
                readers,
            });
        }
        if !code.environment.is_empty() {
            let record_states = self.manifests.borrow_mut().environment_states(&set);
            for (name, state) in &code.environment {
                let Some(record_state) = record_states.get(name).filter(|record_state| *record_state != state) else {
                    continue;
                };
                let readers = self.readers(|code| code.environment.contains_key(name));
                let text_of = |id: &String| if id == ABSENT { "gone".to_owned() } else { shown_id(id) };
                let (old, new) = (text_of(record_state), text_of(state));
                causes.push(Cause::Code { what: name.clone(), old, new, by: None, readers });
            }
        }
        causes
    }

    /// Number of jobs whose code has a property. Many jobs share their code.
    fn readers(&self, has_property: impl Fn(&Code) -> bool) -> usize {
        let mut answers: HashMap<*const Code, bool> = HashMap::new();
        let codes = self.plan.jobs().filter_map(|(_, job)| job.code.as_ref());
        codes.filter(|code| *answers.entry(Arc::as_ptr(code)).or_insert_with(|| has_property(code))).count()
    }

    fn need_causes(&self, id: JobId, entry: &Entry) -> Vec<Cause> {
        let mut old_needs: HashSet<Key> = entry.identity.needs.iter().collect();
        let mut new_needs: Vec<JobId> =
            self.plan.needs(id).filter(|need| !old_needs.remove(&self.plan.job(*need).key)).collect();
        new_needs.sort_unstable();
        // New needs are compared with earlier needs that are not needed any more: first with needs of the same name, then with the nearest
        // one.
        let mut old_needs: Vec<&Entry> = old_needs.iter().filter_map(|key| self.by_key.get(key).copied()).collect();
        old_needs.sort_by(|a, b| (&a.label, a.key).cmp(&(&b.label, b.key)));
        let mut entries_by_label: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in &old_needs {
            entries_by_label.entry(unprefixed(&entry.label)).or_default().push(entry);
        }
        let mut taken_keys: HashSet<Key> = HashSet::new();
        let mut causes = Vec::new();
        for job in new_needs {
            let planned_job = self.plan.job(job);
            let label = planned_job.label.to_string();
            let fits = |candidate: &&&Entry| {
                candidate.identity.task == planned_job.identity.task && !taken_keys.contains(&candidate.key)
            };
            let namesake =
                entries_by_label.get(unprefixed(&label)).and_then(|entries| entries.iter().find(fits).copied());
            let nearest = namesake.or_else(|| {
                let candidates = old_needs.iter().filter(fits).take(MAX_COMPARED);
                candidates.min_by_key(|candidate| self.distance(job, candidate)).copied()
            });
            let inner = nearest.map(|candidate| {
                taken_keys.insert(candidate.key);
                self.causes(job, candidate)
            });
            let cached = self.by_key.contains_key(&planned_job.key);
            causes.push(Cause::Need { job, cached, causes: inner.unwrap_or_default() });
        }
        let removed_entries = old_needs.into_iter().filter(|candidate| !taken_keys.contains(&candidate.key));
        causes.extend(removed_entries.map(|removed_entry| Cause::Gone { label: removed_entry.label.clone() }));
        causes
    }

    /// Returns an explanation in one line, down to the author's change.
    pub fn line(&self, explanation: &Explanation<'_>) -> String {
        if explanation.nearest.is_none() {
            return "no similar job has run".to_owned();
        }
        let mut changes = Vec::new();
        self.roots(&explanation.causes, &mut changes);
        changes.join("; ")
    }

    /// The changes at the root of `causes`, each once.
    fn roots(&self, causes: &[Cause], changes: &mut Vec<String>) {
        for cause in causes {
            let text = match cause {
                Cause::Changed { what, old, new, place } => {
                    let place = place.map(|place| format!("   {}", self.plan.sources().location(place)));
                    let change = if is_content(old, new) {
                        format!("{} changed", clean(what))
                    } else {
                        format!("{} {} → {}", clean(what), shortened(old), shortened(new))
                    };
                    change + &place.unwrap_or_default()
                }
                Cause::Code { what, old, new, readers, .. } => {
                    let verb = if *readers == 1 { "reads" } else { "read" };
                    let what = clean(what);
                    let change = if is_content(old, new) {
                        format!("{what} changed")
                    } else if old.starts_with(CONTENT) {
                        format!("{what} is {new}")
                    } else {
                        format!("{what} {old} → {new}")
                    };
                    format!("{change}; {} {verb} it", count(*readers, "job"))
                }
                Cause::Need { job, cached, causes } if causes.is_empty() => {
                    format!("needs {}, {}", self.plan.job(*job).label, news(*cached))
                }
                Cause::Need { causes, .. } => {
                    self.roots(causes, changes);
                    continue;
                }
                Cause::Gone { label } => format!("no longer needs {label}"),
            };
            if !changes.contains(&text) {
                changes.push(text);
            }
        }
    }
}

/// Returns true if only the content of a file differs, which is reported without its digests.
pub fn is_content(old: &str, new: &str) -> bool {
    old.starts_with(CONTENT) && new.starts_with(CONTENT)
}

/// The difference of a needed job that has nothing to be compared with.
pub fn news(cached: bool) -> &'static str {
    if cached { "which it did not need before" } else { "which is new" }
}

/// The file of an input: the parameter's value, or an item of it, by the input's name: `input`, `inputs.2`, `data.train`.
pub(super) fn file_of(values: &Values, name: &str) -> Option<String> {
    let (param, part) = name.split_once('.').map_or((name, None), |(param, part)| (param, Some(part)));
    let value = values.get(param)?;
    let item = match (value, part) {
        (Value::List(items), Some(part)) => items.get(part.parse::<usize>().ok()?.checked_sub(1)?)?,
        (Value::Map(entries), Some(part)) => entries.get(part)?,
        (value, _) => value,
    };
    let path = without_keys(item.as_text()?);
    let folder = std::env::current_dir().ok();
    let relative_path =
        folder.and_then(|folder| Some(Path::new(&path).strip_prefix(folder).ok()?.display().to_string()));
    Some(relative_path.unwrap_or(path))
}

/// A label without the recipe's name in front: a job does not depend on the recipes that are planned with it.
fn unprefixed(label: &str) -> &str {
    let step = label.split('/').next().unwrap_or(label);
    step.find(':').map_or(label, |index| &label[index + 1..])
}

/// A value that is longer than a line has room for, by its ends.
fn shortened(text: &str) -> String {
    const MAX_LENGTH: usize = 32;
    let text = text.replace('\n', "⏎");
    let chars = text.chars().count();
    if chars <= MAX_LENGTH {
        return text;
    }
    let (head, tail): (String, String) =
        (text.chars().take(MAX_LENGTH / 2).collect(), text.chars().skip(chars - MAX_LENGTH / 2).collect());
    format!("{head}…{tail}")
}
