//! Keeps the pattern of a number from reading lines with another number.

use std::collections::BTreeSet;

use sweep_job::tasks::Pattern;

use super::{Printed, Taken, value};

/// Maximum number of forms of lines on which patterns are tried.
const MAX_FORMS: usize = 200;

/// The forms of lines: lines that differ in their digits only have the same form, and so the same numbers.
pub(super) struct Forms<'l> {
    lines: &'l [&'l str],
    /// The form of each line.
    of_lines: Vec<String>,
    /// A line of each form, by its index.
    firsts: Vec<usize>,
}

impl<'l> Forms<'l> {
    pub(super) fn of(lines: &'l [&'l str]) -> Self {
        let of_lines: Vec<String> = lines.iter().map(|line| form(line)).collect();
        let mut known = BTreeSet::new();
        let firsts = (0..lines.len()).filter(|at| known.len() < MAX_FORMS && known.insert(&of_lines[*at])).collect();
        Self { lines, of_lines, firsts }
    }

    /// The number with a pattern that reads only its own lines; `None` without such a pattern.
    pub(super) fn only(&self, taken: Taken) -> Option<Printed> {
        let Taken { mut printed, narrow, lines } = taken;
        let own: BTreeSet<&String> = lines.iter().map(|at| &self.of_lines[*at]).collect();
        let is_exact = |text: &String, reads_all: bool| {
            let Ok(pattern) = Pattern::new(text) else { return false };
            self.firsts.iter().all(|at| {
                let (is_own, line) = (own.contains(&self.of_lines[*at]), self.lines[*at]);
                (is_own && !reads_all) || value(&pattern, line).is_some() == is_own
            })
        };
        if !is_exact(&printed.pattern, false) {
            printed.pattern = narrow.into_iter().find(|text| is_exact(text, true))?;
        }
        Some(printed)
    }
}

pub(super) fn form(line: &str) -> String {
    let mut form = String::new();
    for char in line.chars() {
        match char {
            '0'..='9' if form.ends_with('0') => {}
            '0'..='9' => form.push('0'),
            char => form.push(char),
        }
    }
    form
}
