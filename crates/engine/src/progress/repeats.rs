//! Texts that many jobs have in common: the first job shows one, the others refer to it.

use std::collections::BTreeMap;

use crate::format::count;

/// The texts that have been shown.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// The first job with each failure.
    failures: BTreeMap<String, String>,
    /// The number of further jobs with each note.
    notes: BTreeMap<String, usize>,
}

impl Repeats {
    /// The text of a job's failure: `message`, or the first job that failed in the same way, if that is shorter.
    pub(super) fn failure(&mut self, message: &str, name: &str) -> String {
        match self.failures.get(message) {
            Some(first) => {
                let reference = format!("the same failure as {first}");
                if reference.len() < message.len() { reference } else { message.to_owned() }
            }
            None => {
                self.failures.insert(message.to_owned(), name.to_owned());
                message.to_owned()
            }
        }
    }

    /// True if no job has shown this note.
    pub(super) fn is_new(&mut self, note: &str) -> bool {
        match self.notes.get_mut(note) {
            Some(more) => {
                *more += 1;
                false
            }
            None => self.notes.insert(note.to_owned(), 0).is_none(),
        }
    }

    /// The notes that more than one job has, each with the number of the further jobs.
    pub(super) fn repeated_notes(&mut self) -> impl Iterator<Item = String> + use<> {
        let notes = std::mem::take(&mut self.notes).into_iter();
        notes.filter(|(_, more)| *more > 0).map(|(note, more)| format!("{}: {note}", count(more, "more job")))
    }
}
