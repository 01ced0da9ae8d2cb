//! Texts that many jobs have in common: the first job shows one, the others refer to it.

use std::collections::BTreeMap;

use crate::format::count;

/// The texts that have been shown.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// The first job with each failure.
    failures: BTreeMap<String, String>,
    /// The first note of each kind, and the number of further jobs with a note that differs from it only in its numbers.
    notes: BTreeMap<String, (String, usize)>,
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

    /// True if no job has shown this note, or a note that differs from it only in its numbers.
    pub(super) fn is_new(&mut self, note: &str) -> bool {
        let kind = without_numbers(note);
        match self.notes.get_mut(&kind) {
            Some((_, repeats)) => {
                *repeats += 1;
                false
            }
            None => self.notes.insert(kind, (note.to_owned(), 0)).is_none(),
        }
    }

    /// The notes that more than one job has, each with the number of the further jobs.
    pub(super) fn repeated_notes(&mut self) -> impl Iterator<Item = String> + use<> {
        let notes = std::mem::take(&mut self.notes).into_values();
        notes
            .filter(|(_, repeats)| *repeats > 0)
            .map(|(note, repeats)| format!("{}: {note}", count(repeats, "more job")))
    }
}

/// A text without its numbers. Digits of names such as `loss_2` stay.
fn without_numbers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_number = false;
    for char in text.chars() {
        in_number =
            char.is_ascii_digit() && (in_number || !kept.ends_with(|last: char| last.is_alphanumeric() || last == '_'));
        if !in_number {
            kept.push(char);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_differ_in_numbers_are_one_kind() {
        let mut repeats = Repeats::default();
        assert!(repeats.is_new("`loss_1` is 0.25 at step 3") && !repeats.is_new("`loss_1` is 12.5 at step 40"));
        assert!(repeats.is_new("`loss_2` is 0.25 at step 3"), "another metric");
        assert_eq!(repeats.repeated_notes().collect::<Vec<_>>(), ["1 more job: `loss_1` is 0.25 at step 3"]);
    }
}
