//! The project's ledger: every question, its level and its verdict, in files that are only added and that name the digest
//! of the one before.
//!
//! An entry is written to a temporary file, synced, and linked to its name only if the name is free. A kill leaves the whole entry or
//! nothing, and two processes cannot both write an entry.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    code::Code,
    judge::{Effect, Verdict},
    question::Question,
    rule::Stages,
};
use crate::{host, host::failpoints, record::Key, stats::online, store::Store};

/// Version of the entries.
const FORMAT: u32 = 1;

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1.
    pub number: usize,
    /// Digest of the file of the entry before it, in hexadecimal; empty for the first.
    pub before: String,
    /// Time of writing.
    pub at: Timestamp,
    /// Content.
    pub event: Event,
}

/// Content of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// The ledger begins.
    Opened {
        /// Version of the entries.
        format: u32,
        /// The rule of the levels.
        rule: String,
        /// The rate of false discoveries that is kept.
        rate: f64,
        /// Digest of the secret that sealed seeds follow from.
        secret: String,
    },
    /// The noise of a baseline was measured.
    Noise(Noise),
    /// A question was asked.
    Asked {
        /// The question.
        question: Question,
    },
    /// A question has a level, and its confirmation may run.
    Granted(Grant),
    /// A question has its verdict.
    Concluded(Box<Conclusion>),
}

/// Noise of a baseline over seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Digest of the baseline's jobs.
    pub baseline: Key,
    /// The metric.
    pub metric: String,
    /// Its value with each of the sealed seeds of the measurement, in the metric's unit.
    pub values: Vec<f64>,
    /// Their standard deviation.
    pub sd: f64,
}

/// Right of a question to a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Number of the entry that asks the question.
    pub asked: usize,
    /// The number of the test, from 1.
    pub test: usize,
    /// Changes that were accepted before.
    pub discoveries: usize,
    /// Level of the test.
    pub level: f64,
    /// Most sealed seeds, with which both the baseline and the candidate run.
    pub pairs: usize,
    /// Numbers of sealed seeds after which the confirmation may end; empty for all of them at once, as in ledgers of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<usize>,
    /// Expected power for the least effect, from 0 to 1.
    pub power: f64,
    /// Digest of the key that the sealed seeds follow from.
    pub seal: String,
    /// The code of the search that no key contains: digests of files, and versions of packages, by name.
    #[serde(default, skip_serializing_if = "Code::is_empty")]
    pub code: Code,
    /// The seeds of the search, none of which is sealed; empty in ledgers of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<i64>,
    /// A random text, from which the key of the sealed seeds follows, too: a copy of the store draws other seeds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    /// Digest of the parameters of the search's jobs, including the parameters that only select measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Key>,
}

/// Verdict about a question, with its grounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// Number of the entry that asks the question.
    pub asked: usize,
    /// Verdict.
    pub verdict: Verdict,
    /// Improvement with the seeds of the search.
    pub search: Effect,
    /// Improvement with the sealed seeds; `None` if the search found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Effect>,
    /// Evidence of the confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Seconds of all jobs together.
    pub seconds: f64,
    /// The archive of the search and of the confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Archive>,
    /// Sealed jobs that began more than once, after an interrupt or a failure.
    #[serde(default, skip_serializing_if = "is_none")]
    pub repeated: usize,
    /// Calls that differed from the granted question, for example with other seeds in the recipe.
    #[serde(default, skip_serializing_if = "is_none")]
    pub altered: usize,
    /// Sealed files that the change reads and the baseline does not, each with its step, and evaluations that it changes; none
    /// unless the verdict is [`Verdict::Leaked`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaks: Vec<String>,
    /// Digest of the list of attempts at the sealed jobs; empty without any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub attempts: String,
}

impl Grant {
    /// The stages of the confirmation.
    pub(super) fn stages(&self) -> Stages {
        let sizes = if self.stages.is_empty() { vec![self.pairs] } else { self.stages.clone() };
        Stages::of(sizes, self.level)
    }
}

impl Conclusion {
    /// A conclusion without a confirmation and without a bundle.
    pub(super) fn new(asked: usize, verdict: Verdict, search: Effect, seconds: f64) -> Self {
        let (confirmed, evidence, bundle) = (None, None, None);
        let (repeated, altered, leaks, attempts) = (0, 0, Vec::new(), String::new());
        Self { asked, verdict, search, confirmed, evidence, seconds, bundle, repeated, altered, leaks, attempts }
    }

    /// The reason of the verdict, as a sentence.
    pub fn reason(&self) -> &'static str {
        let effect = self.confirmed.as_ref().unwrap_or(&self.search);
        match self.verdict {
            Verdict::Leaked => {
                "the change reads sealed data that the baseline does not read, or changes the evaluation"
            }
            Verdict::Accepted => "the sealed seeds confirm the improvement",
            Verdict::Dropped if effect.has_no_effect() => {
                "the change has no effect: the values are the same with every seed that ran; no level was spent"
            }
            _ if effect.has_no_effect() => "the change has no effect: the values are the same with every sealed seed",
            Verdict::Refuted => "the improvement is less than the least effect",
            Verdict::Undecided => "the sealed seeds neither confirm nor exclude the improvement",
            Verdict::Dropped => "the search found no improvement that matters; no level was spent",
        }
    }
}

/// Outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// One-sided p-value of no improvement.
    pub p: f64,
    /// The e-value at the granted level.
    pub e: f64,
    /// The granted level.
    pub level: f64,
    /// Level of the look at which the confirmation ended: all looks together have the granted one. 0 before the first
    /// look; `None` for a single test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<f64>,
}

/// A bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// Its file, relative to the results folder.
    pub file: PathBuf,
    /// Its digest.
    pub blake3: String,
    /// The key that the sealed seeds follow from, revealed; `None` without a confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Error of the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// An I/O error.
    #[error("the ledger: {0}")]
    Io(#[from] io::Error),
    /// An entry was changed, or is missing.
    #[error("entry {number} of the ledger {reason}; the ledger was changed, and no proposal is judged on it")]
    Broken {
        /// Its number.
        number: usize,
        /// The reason.
        reason: String,
    },
    /// The secret is missing or another one.
    #[error("the secret of the ledger is missing or was replaced: {}; restore it from a copy of the store", .0.display())]
    Secret(PathBuf),
    /// Another process has written the next entry.
    #[error("another process has written to the ledger; repeat the command")]
    Raced,
}

/// The entries, checked.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    folder: PathBuf,
    aside: PathBuf,
    /// The entries, the oldest first.
    pub entries: Vec<Entry>,
    /// Digest of the latest entry; empty without any.
    pub head: String,
}

impl Ledger {
    /// Reads and checks the ledger of a store. A missing ledger is empty.
    pub fn read(store: &Store) -> Result<Self, LedgerError> {
        let folder = store.ledger();
        let aside = folder.parent().unwrap_or(Path::new(".")).to_owned();
        let mut ledger = Self { folder, aside, ..Self::default() };
        let mut numbers = numbers(&ledger.folder)?;
        numbers.sort_unstable();
        for (index, number) in numbers.into_iter().enumerate() {
            let broken_entry = |reason: &str| LedgerError::Broken { number: index + 1, reason: reason.to_owned() };
            if number != index + 1 {
                return Err(broken_entry("is missing"));
            }
            let text = fs::read(ledger.file(number))?;
            let entry: Entry = serde_json::from_slice(&text).map_err(|_| broken_entry("cannot be read"))?;
            if entry.number != number {
                return Err(broken_entry("has another number"));
            }
            if entry.before != ledger.head {
                return Err(broken_entry("does not follow from the one before it"));
            }
            ledger.head = digest(&text);
            ledger.check(&entry).map_err(|reason| LedgerError::Broken { number, reason })?;
            ledger.entries.push(entry);
        }
        Ok(ledger)
    }

    /// Checks that an entry can follow the earlier entries, and that a level follows the rule.
    fn check(&self, entry: &Entry) -> Result<(), String> {
        match &entry.event {
            Event::Opened { format, .. } if entry.number != 1 || *format > FORMAT => {
                Err("opens the ledger again, or is of a later version".to_owned())
            }
            _ if entry.number == 1 && !matches!(entry.event, Event::Opened { .. }) => {
                Err("does not open the ledger".to_owned())
            }
            Event::Granted(grant) => {
                let (test, discoveries) = (self.tests() + 1, self.discoveries());
                let level = online::level_after(test, discoveries);
                let is_next = grant.test == test && grant.discoveries == discoveries;
                let is_again = self.grant(grant.asked).is_some() || self.question(grant.asked).is_none();
                if !is_next || is_again || (grant.level - level).abs() > 1e-12 {
                    return Err(format!("has a level that the rule does not give: it gives {level:e}"));
                }
                Ok(())
            }
            Event::Concluded(end) => {
                let is_open = self.question(end.asked).is_some() && self.conclusion(end.asked).is_none();
                let is_granted = end.evidence.is_none() || self.grant(end.asked).is_some();
                if is_open && is_granted { Ok(()) } else { Err("concludes what was not asked".to_owned()) }
            }
            Event::Opened { .. } | Event::Noise(_) | Event::Asked { .. } => Ok(()),
        }
    }

    /// Adds an entry. The lock of the ledger must be held.
    pub(super) fn add(&mut self, event: Event) -> Result<usize, LedgerError> {
        let number = self.entries.len() + 1;
        let entry = Entry { number, before: self.head.clone(), at: host::clock::now(), event };
        self.check(&entry).map_err(|reason| LedgerError::Broken { number, reason })?;
        let mut text = serde_json::to_vec_pretty(&entry).map_err(io::Error::from)?;
        text.push(b'\n');
        failpoints::point("ledger: before an entry")?;
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.aside)?;
        failpoints::write_all(&mut file, &text, "ledger: file made", "ledger: in the file")?;
        file.as_file().sync_all()?;
        failpoints::point("ledger: before its name")?;
        file.persist_noclobber(self.file(number)).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => LedgerError::Raced,
            _ => LedgerError::Io(error.error),
        })?;
        settle(&self.file(number))?;
        failpoints::point("ledger: kept")?;
        self.head = digest(&text);
        self.entries.push(entry);
        Ok(number)
    }

    /// Opens the ledger, if that has not been done, with the digest of its secret.
    pub(super) fn open(&mut self, secret: &str, file: &Path) -> Result<(), LedgerError> {
        match self.entries.first().map(|entry| &entry.event) {
            Some(Event::Opened { secret: known_secret, .. }) if known_secret == secret => Ok(()),
            Some(_) => Err(LedgerError::Secret(file.to_owned())),
            None => {
                let rule = "e-LOND".to_owned();
                let event = Event::Opened { format: FORMAT, rule, rate: online::RATE, secret: secret.to_owned() };
                self.add(event).map(|_| ())
            }
        }
    }

    /// The number of tests that have a level.
    pub fn tests(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.event, Event::Granted(_))).count()
    }

    /// The number of accepted changes.
    pub fn discoveries(&self) -> usize {
        self.conclusions().filter(|(_, end)| end.verdict == Verdict::Accepted).count()
    }

    /// The level of the next test.
    pub fn next_level(&self) -> f64 {
        online::level_after(self.tests() + 1, self.discoveries())
    }

    /// The questions, the oldest first.
    pub fn questions(&self) -> impl Iterator<Item = (&Entry, &Question)> {
        self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Asked { question } => Some((entry, question)),
            _ => None,
        })
    }

    /// The question that an entry asks.
    pub fn question(&self, asked: usize) -> Option<&Question> {
        self.questions().find(|(entry, _)| entry.number == asked).map(|(_, question)| question)
    }

    /// The conclusions, the oldest first.
    pub fn conclusions(&self) -> impl Iterator<Item = (&Entry, &Conclusion)> {
        self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Concluded(end) => Some((entry, &**end)),
            _ => None,
        })
    }

    /// The verdict about a question.
    pub fn conclusion(&self, asked: usize) -> Option<&Conclusion> {
        self.conclusions().find(|(_, conclusion)| conclusion.asked == asked).map(|(_, conclusion)| conclusion)
    }

    /// The sealed values of an accepted change, whose jobs have this digest. They are the values of the baseline that it becomes.
    pub(super) fn confirmed_values(&self, candidate: Key, metric: &str) -> Option<Vec<f64>> {
        self.conclusions().filter(|(_, end)| end.verdict == Verdict::Accepted).find_map(|(_, end)| {
            let question = self.question(end.asked)?;
            let is_same = question.candidate == candidate && question.metric == metric;
            Some(end.confirmed.as_ref().filter(|_| is_same)?.candidate.clone())
        })
    }

    /// The level of a question.
    pub fn grant(&self, asked: usize) -> Option<&Grant> {
        self.entries.iter().find_map(|entry| match &entry.event {
            Event::Granted(grant) if grant.asked == asked => Some(grant),
            _ => None,
        })
    }

    /// The noise of a baseline.
    pub fn noise(&self, baseline: Key, metric: &str) -> Option<&Noise> {
        self.entries.iter().find_map(|entry| match &entry.event {
            Event::Noise(noise) if noise.baseline == baseline && noise.metric == metric => Some(noise),
            _ => None,
        })
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number:06}.json"))
    }
}

/// Brings the name of a file in the ledger's folder to the disk, and the names of that folder and of the store's: without them, a
/// power failure would take the ledger away, and levels could be granted again.
pub(super) fn settle(file: &Path) -> io::Result<()> {
    /// The folders of the ledger, of the store and of the results.
    const FOLDERS: usize = 3;
    let folders = file.ancestors().skip(1).take(FOLDERS);
    folders
        .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
        .try_for_each(|folder| fs::File::open(folder)?.sync_all())
}

/// The numbers of the entries in a folder.
fn numbers(folder: &Path) -> io::Result<Vec<usize>> {
    let folder_entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        folder_entries => folder_entries?,
    };
    let mut numbers = Vec::new();
    for entry in folder_entries {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".json")?.parse::<usize>().ok()));
    }
    Ok(numbers)
}

/// The digest of a text, in hexadecimal.
pub(super) fn digest(text: &[u8]) -> String {
    blake3::hash(text).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level of an earlier version, whose sealed seeds all run before its single test.
    #[test]
    fn a_grant_without_stages_is_a_single_test() {
        let text =
            r#"{ "asked": 3, "test": 1, "discoveries": 0, "level": 0.0027, "pairs": 6, "power": 0.8, "seal": "" }"#;
        let grant: Grant = serde_json::from_str(text).unwrap();
        let stages = grant.stages();
        assert_eq!((stages.sizes(), stages.level_of_look(6)), (&[6][..], 0.0027));
        let effect = |count: usize| Effect::new(vec![0; count], vec![0.0; count], vec![-1.0; count], 1.0).unwrap();
        assert!(stages.is_end(&effect(6), 1.0, 1.0, 0.1));
        assert_eq!(effect(6).judge(1.0, 1.0, &stages).1.look, None);
    }
}
