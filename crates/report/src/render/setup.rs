//! Experimental setup of a study: a paragraph of plain sentences and a checklist, written from the plan, the records and the journals. It
//! names properties that cannot be determined.

mod byline;
mod checklist;
mod environment;
mod replicates;
mod spent;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
};

use self::spent::Spent;
pub(super) use self::{
    byline::{Begun, Byline},
    checklist::markdown as checklist,
};
use super::{markdown, page::Records};
use crate::{
    analysis::{Verdict, chance_of_error, tally},
    format::{clean, compute, count},
    plan::{Plan, Study},
    record::{Conditions, Key, Provenance, Record},
    store::Store,
};
use maud::{Markup, html};

/// Maximum number of names or files that a sentence lists.
const MAX_NAMES: usize = 8;

/// Number of displayed digits of a digest.
const DIGITS: usize = 12;

/// Experimental setup of a study.
#[derive(Debug)]
pub(super) struct Setup {
    topics: Vec<Topic>,
    /// Particulars of the study, for the head of its page.
    pub(super) byline: Byline,
}

/// A topic of the setup: a line of the checklist.
#[derive(Debug, Default)]
struct Topic {
    name: &'static str,
    /// Sentences of the paragraph.
    sentences: Vec<String>,
    /// Properties that could not be determined, as phrases.
    unknown: Vec<String>,
}

/// Sources of the setup.
struct Sources<'a> {
    plan: &'a Plan,
    study: &'a Study,
    verdicts: &'a [Verdict],
    /// The records of the study's jobs, in the order of the plan.
    records: Vec<&'a Record>,
    /// Records of runs of other programs.
    imported: Vec<&'a Record>,
    spent: Spent,
}

impl Topic {
    fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn say(&mut self, sentence: impl Into<String>) {
        self.sentences.push(sentence.into());
    }

    fn lacks(&mut self, what: impl Into<String>) {
        self.unknown.push(what.into());
    }

    /// Adds that `what` is unknown for imported records.
    fn lacks_for_imported(&mut self, what: &str, imported: &[&Record]) {
        if !imported.is_empty() {
            self.lacks(format!("{what} of {}", imported_records(imported.len())));
        }
    }

    /// Answer of the checklist.
    fn answer(&self) -> &'static str {
        match (self.sentences.is_empty(), self.unknown.is_empty()) {
            (false, true) => "yes",
            (false, false) => "in part",
            (true, _) => "no",
        }
    }
}

impl Setup {
    /// Determines the setup of a study with these records.
    pub(super) fn new(plan: &Plan, study: &Study, store: &Store, verdicts: &[Verdict], records: &Records<'_>) -> Self {
        let keys: HashSet<Key> = study.steps.iter().flatten().map(|(_, id)| plan.job(*id).key).collect();
        // Imported records do not describe the conditions of this study.
        let (imported, records): (Vec<&Record>, Vec<&Record>) =
            records.values().map(AsRef::as_ref).partition(|record: &&Record| record.imported().is_some());
        let spent = Spent::new(store.results(), &keys, records.iter().copied());
        let sources = Sources { plan, study, verdicts, records, imported, spent };
        let topics = vec![
            sources.results(),
            sources.hardware(),
            sources.software(),
            sources.code(),
            sources.seeds(),
            sources.error_bars(),
            sources.claims(),
            sources.times(),
            sources.compute(),
            sources.data(),
        ];
        Self { topics, byline: sources.byline(&[]) }
    }

    /// The setup in Markdown.
    pub(super) fn markdown(&self) -> String {
        let paragraph: Vec<String> =
            self.topics.iter().flat_map(|topic| &topic.sentences).map(|text| markdown::escape(text)).collect();
        let mut text = format!("## Experimental setup\n\n{}\n\n", paragraph.join(" "));
        text += "### Checklist\n\n| stated | answer | not determined |\n| --- | --- | --- |\n";
        let row = |topic: &Topic| {
            let unknown = markdown::escape(&topic.unknown.join("; "));
            ["| ", topic.name, " | ", topic.answer(), " | ", &unknown, " |\n"].concat()
        };
        text.extend(self.topics.iter().map(row));
        text
    }

    /// The setup as a section of the page.
    pub(super) fn section(&self) -> Markup {
        html! {
            section id="setup" {
                h2 { "Experimental setup" }
                p { @for sentence in self.topics.iter().flat_map(|topic| &topic.sentences) { (sentence) " " } }
                div .scroll tabindex="0" role="region" aria-label="Checklist of the experimental setup" {
                    table .checklist {
                        thead { tr { th scope="col" { "Stated" } th scope="col" { "Answer" } th scope="col" { "Not determined" } } }
                        tbody { @for topic in &self.topics {
                            tr { th scope="row" { (topic.name) } td .text { (topic.answer()) } td .text { (topic.unknown.join("; ")) } }
                        } }
                    }
                }
                p .note { a href="setup.md" { "This section as Markdown" } "." }
            }
        }
    }
}

impl<'a> Sources<'a> {
    fn provenances(&self) -> impl Iterator<Item = &'a Provenance> {
        self.records.iter().map(|record| &record.provenance)
    }

    /// The recorded conditions, each with its job's record.
    fn conditions(&self) -> impl Iterator<Item = (&'a Record, &'a Conditions)> {
        self.records.iter().filter_map(|record| Some((*record, record.provenance.conditions.as_deref()?)))
    }

    /// Values of the recorded conditions, each once, in order.
    fn values<T: Ord>(&self, value: impl Fn(&'a Conditions) -> Option<T>) -> BTreeSet<T> {
        self.conditions().filter_map(|(_, conditions)| value(conditions)).collect()
    }

    fn results(&self) -> Topic {
        let mut topic = Topic::new("results");
        let jobs: BTreeSet<Key> = self
            .study
            .steps
            .iter()
            .flatten()
            .filter(|(_, id)| !self.study.rounds.contains_key(id))
            .map(|(_, id)| self.plan.job(*id).key)
            .collect();
        let done_keys = self.records.iter().chain(&self.imported).map(|record| record.key).collect::<BTreeSet<_>>();
        let open_jobs = jobs.difference(&done_keys).count();
        topic.say(format!(
            "The study \"{}\" has {} with results.",
            clean(&self.study.recipe.name),
            count(done_keys.len(), "job")
        ));
        if open_jobs > 0 {
            topic.lacks(format!("{} without a result", count(open_jobs, "job")));
        }
        let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
        for source in self.imported.iter().filter_map(|record| record.imported()) {
            *sources.entry(source).or_default() += 1;
        }
        for (source, number) in sources {
            let records = count(number, "record");
            topic.say(format!("{records} imported from {}; \"sweep\" did not run them.", clean(source)));
        }
        let old = self.records.len() - self.conditions().count();
        if old > 0 {
            topic.lacks(format!("{} of an earlier version without conditions", count(old, "record")));
        }
        topic
    }

    fn claims(&self) -> Topic {
        let mut topic = Topic::new("claims and corrections");
        if self.verdicts.is_empty() {
            topic.say("The recipe makes no claims.");
            return topic;
        }
        if let Some(tally) = tally(self.verdicts) {
            topic.say(format!("The recipe makes {tally}."));
        }
        if let Some(chance) = chance_of_error(self.verdicts, self.study.recipe.family) {
            topic.say(format!("{chance}."));
        }
        topic
    }

    fn times(&self) -> Topic {
        let mut topic = Topic::new("conditions of times");
        let shown_metrics: HashSet<&str> = self.study.recipe.metrics().collect();
        let timed = |record: &&Record| {
            record
                .outcome
                .metrics
                .iter()
                .any(|(name, metric)| metric.unit.is_timing() && shown_metrics.contains(name.as_str()))
        };
        let timed_records: Vec<&Record> = self.records.iter().copied().filter(timed).collect();
        let imported = self.imported.iter().copied().filter(timed).count();
        if imported > 0 {
            topic.lacks(format!("conditions of the times and rates of {}", imported_records(imported)));
        }
        if timed_records.is_empty() && imported == 0 {
            topic.say("No table, figure or claim shows a time or a rate.");
        }
        if timed_records.is_empty() {
            return topic;
        }
        let known: Vec<(&Record, &Conditions)> = timed_records
            .iter()
            .filter_map(|record| Some((*record, record.provenance.conditions.as_deref()?)))
            .collect();
        let alone = known.iter().filter(|(_, conditions)| conditions.exclusive.held).count();
        let jobs = count(timed_records.len(), "job");
        topic.say(if alone == timed_records.len() {
            format!("Times and rates are of {jobs}, each without another job of a sweep on its machine.")
        } else {
            format!(
                "Times and rates are of {jobs}, of which {alone} ran without another job of a sweep on the machine."
            )
        });
        let load = |(_, conditions): &&(&Record, &Conditions)| conditions.foreign.unwrap_or(-1.0);
        let worst = known.iter().max_by(|one, other| load(one).total_cmp(&load(other)));
        if let Some((record, conditions)) = worst
            && let Some(foreign) = conditions.foreign
        {
            let of = conditions.machine.cores.map_or_else(String::new, |cores| format!(" of {cores}"));
            topic.say(format!(
                "Meanwhile other processes kept at most {foreign:.2}{of} cores busy (during {}).",
                clean(&record.label)
            ));
        }
        let unknown = timed_records.len() - known.iter().filter(|(_, conditions)| conditions.foreign.is_some()).count();
        if unknown > 0 {
            topic
                .lacks(format!("load during {}, which were too short or of an earlier version", count(unknown, "job")));
        }
        topic
    }

    fn compute(&self) -> Topic {
        let mut topic = Topic::new("total compute");
        let Spent { cores, gpus, lost_cores, lost_gpus, lost, is_part } = self.spent;
        topic.lacks_for_imported("compute", &self.imported);
        if cores == 0.0 && gpus == 0.0 {
            if self.imported.is_empty() {
                topic.lacks("there are neither records nor journals");
            }
            return topic;
        }
        let time = |cores: f64, gpus: f64| {
            let gpus = if gpus > 0.0 { format!(" and {}", compute(gpus, "GPU")) } else { String::new() };
            format!("{}{gpus}", compute(cores, "core"))
        };
        let failed_text = if lost > 0 {
            format!(", of which {} in {} without a result", time(lost_cores, lost_gpus), count(lost, "attempt"))
        } else {
            String::new()
        };
        topic.say(format!("The jobs took {}{failed_text}.", time(cores, gpus)));
        if is_part {
            topic.lacks("attempts of older runs");
        }
        topic
    }

    fn data(&self) -> Topic {
        let mut topic = Topic::new("data and license");
        let jobs: BTreeSet<_> = self.study.steps.iter().flatten().map(|(_, id)| *id).collect();
        let inputs: BTreeSet<String> = jobs
            .into_iter()
            .flat_map(|id| self.plan.inputs_of(id))
            .map(|(path, digest)| {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                let digest = digest.rsplit(':').next().unwrap_or_default();
                format!("{} (BLAKE3 {})", clean(&name), digits(digest))
            })
            .collect();
        topic.lacks_for_imported("data", &self.imported);
        if inputs.is_empty() {
            if self.imported.is_empty() {
                topic.say("The jobs read no input files.");
            }
            return topic;
        }
        topic.say(format!(
            "The jobs read {}: {}.",
            count(inputs.len(), "input"),
            listed(inputs.iter().map(String::as_str))
        ));
        topic.lacks("license of the data, which a recipe does not state");
        topic
    }
}

fn imported_records(number: usize) -> String {
    count(number, "imported record")
}

/// The first digits of a digest.
fn digits(digest: &str) -> &str {
    digest.get(..DIGITS).unwrap_or(digest)
}

/// A list in words: `a, b and 3 more`.
fn listed<'t>(items: impl ExactSizeIterator<Item = &'t str>) -> String {
    let hidden = items.len().saturating_sub(MAX_NAMES);
    let text = items.take(MAX_NAMES).collect::<Vec<_>>().join(", ");
    if hidden > 0 { format!("{text} and {hidden} more") } else { text }
}

/// The file of the setup in a report's folder.
pub(super) const FILE: &str = "setup.md";

/// True if a report's folder has the setup.
pub(super) fn is_there(folder: &Path) -> bool {
    folder.join(FILE).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(listed(["a", "b"].into_iter()), "a, b");
        assert_eq!(listed(["x"; 10].into_iter()), "x, x, x, x, x, x, x, x and 2 more");
    }
}
