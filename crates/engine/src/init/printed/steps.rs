//! The steps of lines: `epoch 3`, `step 100`.

use std::collections::{BTreeMap, BTreeSet};

use regex::Captures;

use super::{forms::form, patterns::STEP};

/// The words whose numbers are the steps of lines that have several, such as `epoch 1 step 100`.
#[derive(Default)]
pub(super) struct Steps(BTreeMap<Vec<String>, String>);

impl Steps {
    /// The first word counts, unless its number repeats in lines of one form and the number of a later word does not.
    pub(super) fn of(lines: &[&str]) -> Self {
        /// Values of a word by the form of the line; `None` once a value has repeated.
        type Values = BTreeMap<String, Option<BTreeSet<String>>>;
        let mut all: BTreeMap<Vec<String>, Vec<Values>> = BTreeMap::new();
        for line in lines {
            let found = in_line(line);
            if found.len() < 2 {
                continue;
            }
            let form = form(line);
            let of_words = all.entry(words(&found)).or_insert_with(|| vec![Values::new(); found.len()]);
            for (values, step) in of_words.iter_mut().zip(&found) {
                let known = values.entry(form.clone()).or_insert_with(|| Some(BTreeSet::new()));
                if !known.as_mut().is_some_and(|known| known.insert(step["number"].to_owned())) {
                    *known = None;
                }
            }
        }
        let choose = |(words, values): (Vec<String>, Vec<Values>)| {
            let is_unique = |values: &Values| values.values().all(Option::is_some);
            let at = values.iter().position(is_unique).unwrap_or(0);
            let word = words[at].clone();
            (words, word)
        };
        Self(all.into_iter().map(choose).collect())
    }

    /// The step of a line before `end`.
    pub(super) fn before<'t>(&self, line: &'t str, end: usize) -> Option<Captures<'t>> {
        let found = in_line(line);
        let chosen = self.0.get(&words(&found));
        let is_before = |step: &Captures<'_>| step.name("number").is_some_and(|number| number.end() < end);
        let mut before = found.into_iter().filter(is_before);
        match chosen {
            Some(word) => before.find(|step| step["word"].eq_ignore_ascii_case(word)),
            None => before.next(),
        }
    }
}

/// The steps of a line.
fn in_line(line: &str) -> Vec<Captures<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(step) = STEP.captures_at(line, start) {
        start = step.name("number").map_or(line.len(), |number| number.end());
        found.push(step);
    }
    found
}

fn words(found: &[Captures<'_>]) -> Vec<String> {
    found.iter().map(|step| step["word"].to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::printed_results;

    #[test]
    fn the_step_is_a_number_that_does_not_repeat() {
        for (lines, step) in [
            ("epoch 1 step 100 loss 0.9\nepoch 1 step 200 loss 0.8\nepoch 2 step 300 loss 0.7", "{step}"),
            ("Epoch 1, global step 100: loss 0.9\nEpoch 1, global step 200: loss 0.8", "{step}"),
            ("epoch 1 step 100 loss 0.9\nepoch 1 step 200 loss 0.8\nepoch 2 step 100 loss 0.7", "{epoch}"),
            ("epoch 1 step 100 loss 0.9\nepoch 2 step 200 loss 0.8", "{epoch}"),
            ("epoch=1 iter=100 loss=0.9\nepoch=1 iter=200 loss=0.8", "{iter}"),
        ] {
            let number = printed_results(std::iter::once(lines)).read.remove(0);
            assert!(number.pattern.contains(step), "{lines}: {}", number.pattern);
        }
    }
}
