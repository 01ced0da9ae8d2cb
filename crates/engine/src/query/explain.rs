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
    record::{ABSENT, Key, fact, shown_id, without_keys},
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
    /// The record of the same task that differs least; `None` if the task has no records.
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
const CONTENT: &str = "content ";
/// With how many records a job is compared when many jobs are explained at once and none of them has its name.
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
        let named = self.by_label.get(unprefixed(&label)).into_iter().flatten();
        let named: Vec<&Entry> = named.filter(|entry| entry.identity.task == job.identity.task).copied().collect();
        if !named.is_empty() {
            return self.among(id, &named);
        }
        let task = self.by_task.get(job.identity.task.as_str()).map(Vec::as_slice).unwrap_or_default();
        self.among(id, &task[..task.len().min(MAX_COMPARED)])
    }

    fn among(&self, id: JobId, entries: &[&'a Entry]) -> Explanation<'a> {
        let step = self.plan.job(id).label.step.as_str();
        let own_step = |entry: &Entry| unprefixed(&entry.label).split('/').next() == Some(step);
        let ranked =
            entries.iter().map(|entry| (self.distance(id, entry), !own_step(entry), Reverse(entry.started), *entry));
        let nearest = ranked.min_by_key(|(distance, other_step, age, _)| (*distance, *other_step, *age));
        let nearest = nearest.map(|(.., entry)| entry);
        let causes = nearest.map(|entry| self.causes(id, entry)).unwrap_or_default();
        Explanation { nearest, causes }
    }

    /// Number of fields that differ; those of needed jobs count as one each.
    fn distance(&self, id: JobId, entry: &Entry) -> usize {
        let (now, then) = (&self.plan.job(id).identity, &entry.identity);
        let names = now.params.keys().chain(then.params.keys().filter(|name| !now.params.contains_key(name)));
        let params = names.filter(|name| now.params.get(name) != then.params.get(name)).count();
        let inputs = now.inputs.keys().chain(then.inputs.keys().filter(|name| !now.inputs.contains_key(*name)));
        let inputs = inputs.filter(|name| now.inputs.get(*name) != then.inputs.get(*name)).count();
        // Both are sorted.
        let needs = now.needs.iter().filter(|key| !then.needs.contains(*key)).count();
        let gone = then.needs.iter().filter(|key| !now.needs.contains(*key)).count();
        let rest = usize::from(now.revision != then.revision)
            + usize::from(now.backend != then.backend)
            + usize::from(now.format != then.format)
            + usize::from(now.code != then.code);
        params + inputs + rest + needs.max(gone)
    }

    fn causes(&self, id: JobId, entry: &Entry) -> Vec<Cause> {
        let (now, then) = (&self.plan.job(id).identity, &entry.identity);
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
            let name =
                |backend: Option<sweep_job::Backend>| backend.map_or("none", sweep_job::Backend::name).to_owned();
            changed("backend", name(then.backend), name(now.backend), None);
        }
        // In the order of the task's declaration, which is the order of its documentation.
        for param in Task::info(&now.task).into_iter().flat_map(TaskInfo::params) {
            let place = || self.plan.place(id, param.name);
            let shown = |value: Option<&Value>| match value {
                Some(value) => without_keys(&value.to_string()),
                None => format!("{} (default)", (param.default)()),
            };
            let content = |digest: Option<&String>, value: Option<&Value>| match digest {
                Some(digest) => format!("content {}", digest.chars().take(12).collect::<String>()),
                None => shown(value),
            };
            let (old, new) = (then.params.get(param.name), now.params.get(param.name));
            // A list's or a map's inputs stand under `name.1`, `name.key`.
            let own = |name: &str| {
                name == param.name || name.strip_prefix(param.name).is_some_and(|rest| rest.starts_with('.'))
            };
            let values = &self.plan.job(id).values;
            let names: BTreeSet<&String> =
                now.inputs.keys().chain(then.inputs.keys()).filter(|name| own(name)).collect();
            let mut as_input = false;
            for name in names {
                let (old_digest, new_digest) = (then.inputs.get(name), now.inputs.get(name));
                if old_digest != new_digest {
                    let file = file_of(values, name).unwrap_or_else(|| name.clone());
                    changed(&file, content(old_digest, old), content(new_digest, new), place());
                    as_input = true;
                }
            }
            // The same result of another job: the differences of that job are reported as a change of the need.
            if as_input || old == new || shown(old) == shown(new) {
                continue;
            }
            match (old, new) {
                (Some(old), Some(new)) => {
                    for Difference { what, old, new } in differences(param.name, old, new) {
                        changed(&what, without_keys(&old), without_keys(&new), place());
                    }
                }
                _ => changed(param.name, shown(old), shown(new), place()),
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
        let shown = |digest: &str| match digest {
            ABSENT => "gone".to_owned(),
            digest => format!("{CONTENT}{}", digest.chars().take(12).collect::<String>()),
        };
        for now in &code.files {
            let Some(then) = set.files.get(&now.path).filter(|then| then.digest != now.digest) else { continue };
            let readers = self.readers(|code| code.files.iter().any(|file| file.path == now.path));
            let (old, new) = (shown(&then.digest), shown(&now.digest));
            causes.push(Cause::Code { what: now.path.clone(), old, new, by: then.by.clone(), readers });
        }
        for now in &code.facts {
            let then = set.facts.get(&now.path).filter(|then| fact::is_other(then, &now.digest));
            let Some(then) = then else { continue };
            let readers = self.readers(|code| code.facts.iter().any(|fact| fact.path == now.path));
            let (what, old, new) = fact::change(&now.path, then, &now.digest, CONTENT);
            causes.push(Cause::Code { what, old, new, by: None, readers });
        }
        for (name, folder, now) in &code.packages {
            let then = set.packages.get(name).filter(|then| then.folder == *folder && then.version != *now);
            let Some(then) = then else { continue };
            let readers = self.readers(|code| code.packages.iter().any(|(other, ..)| other == name));
            let new = if now == ABSENT { "gone".to_owned() } else { now.clone() };
            causes.push(Cause::Code { what: name.clone(), old: then.version.clone(), new, by: None, readers });
        }
        if !code.environment.is_empty() {
            let then = self.manifests.borrow_mut().environment_states(&set);
            for (name, now) in &code.environment {
                let Some(then) = then.get(name).filter(|then| *then != now) else { continue };
                let readers = self.readers(|code| code.environment.contains_key(name));
                let shown = |id: &String| if id == ABSENT { "gone".to_owned() } else { shown_id(id) };
                let (old, new) = (shown(then), shown(now));
                causes.push(Cause::Code { what: name.clone(), old, new, by: None, readers });
            }
        }
        causes
    }

    /// Number of jobs whose code has a property. Many jobs share their code.
    fn readers(&self, has: impl Fn(&Code) -> bool) -> usize {
        let mut known: HashMap<*const Code, bool> = HashMap::new();
        let codes = self.plan.jobs().filter_map(|(_, job)| job.code.as_ref());
        codes.filter(|code| *known.entry(Arc::as_ptr(code)).or_insert_with(|| has(code))).count()
    }

    fn need_causes(&self, id: JobId, entry: &Entry) -> Vec<Cause> {
        let mut before: HashSet<Key> = entry.identity.needs.iter().collect();
        let mut new: Vec<JobId> =
            self.plan.needs(id).filter(|need| !before.remove(&self.plan.job(*need).key)).collect();
        new.sort_unstable();
        // New needs are compared with those that were needed then and are not needed now: first with those of the same name,
        // then with the nearest one.
        let mut before: Vec<&Entry> = before.iter().filter_map(|key| self.by_key.get(key).copied()).collect();
        before.sort_by(|a, b| (&a.label, a.key).cmp(&(&b.label, b.key)));
        let mut named: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in &before {
            named.entry(unprefixed(&entry.label)).or_default().push(entry);
        }
        let mut taken: HashSet<Key> = HashSet::new();
        let mut causes = Vec::new();
        for job in new {
            let planned = self.plan.job(job);
            let label = planned.label.to_string();
            let fits =
                |earlier: &&&Entry| earlier.identity.task == planned.identity.task && !taken.contains(&earlier.key);
            let same = named.get(unprefixed(&label)).and_then(|entries| entries.iter().find(fits).copied());
            let nearest = same.or_else(|| {
                let open = before.iter().filter(fits).take(MAX_COMPARED);
                open.min_by_key(|earlier| self.distance(job, earlier)).copied()
            });
            let inner = nearest.map(|earlier| {
                taken.insert(earlier.key);
                self.causes(job, earlier)
            });
            let cached = self.by_key.contains_key(&planned.key);
            causes.push(Cause::Need { job, cached, causes: inner.unwrap_or_default() });
        }
        let gone = before.into_iter().filter(|earlier| !taken.contains(&earlier.key));
        causes.extend(gone.map(|gone| Cause::Gone { label: gone.label.clone() }));
        causes
    }

    /// Returns an explanation in one line, down to the author's change.
    pub fn line(&self, explanation: &Explanation<'_>) -> String {
        if explanation.nearest.is_none() {
            return "no similar job has run".to_owned();
        }
        let mut found = Vec::new();
        self.roots(&explanation.causes, &mut found);
        found.join("; ")
    }

    /// The changes at the root of `causes`, each once.
    fn roots(&self, causes: &[Cause], found: &mut Vec<String>) {
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
                    let read = if *readers == 1 { "reads" } else { "read" };
                    let what = clean(what);
                    let change = if is_content(old, new) {
                        format!("{what} changed")
                    } else if old.starts_with(CONTENT) {
                        format!("{what} is {new}")
                    } else {
                        format!("{what} {old} → {new}")
                    };
                    format!("{change}; {} {read} it", count(*readers, "job"))
                }
                Cause::Need { job, cached, causes } if causes.is_empty() => {
                    format!("needs {}, {}", self.plan.job(*job).label, news(*cached))
                }
                Cause::Need { causes, .. } => {
                    self.roots(causes, found);
                    continue;
                }
                Cause::Gone { label } => format!("no longer needs {label}"),
            };
            if !found.contains(&text) {
                found.push(text);
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
fn file_of(values: &Values, name: &str) -> Option<String> {
    let (param, part) = name.split_once('.').map_or((name, None), |(param, part)| (param, Some(part)));
    let value = values.get(param)?;
    let found = match (value, part) {
        (Value::List(items), Some(part)) => items.get(part.parse::<usize>().ok()?.checked_sub(1)?)?,
        (Value::Map(entries), Some(part)) => entries.get(part)?,
        (value, _) => value,
    };
    let path = without_keys(found.as_text()?);
    let here = std::env::current_dir().ok();
    let near = here.and_then(|here| Some(Path::new(&path).strip_prefix(here).ok()?.display().to_string()));
    Some(near.unwrap_or(path))
}

/// A label without the recipe's name in front: which recipes are planned together makes no difference to a job.
fn unprefixed(label: &str) -> &str {
    let step = label.split('/').next().unwrap_or(label);
    step.find(':').map_or(label, |at| &label[at + 1..])
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
