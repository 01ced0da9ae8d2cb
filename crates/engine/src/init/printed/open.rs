//! Words of an output that are values of its job's axes: `adam` in `accuracy with adam: 0.9`. They are open in patterns and no part of names,
//! so that all jobs have one metric.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use super::{Missed, Printed, PrintedNumbers, STEPS, missed::Why, names::SPLITS, regex};
use crate::stats::Better;

/// The word in place of each of them while numbers are searched.
const MARK: &str = "Openword";
/// Its form in names.
const NAME: &str = "openword";
/// The part of a pattern that reads any of them.
const ANY: &str = r#"[^\s\[\](){}|,;:='"]+"#;
/// Words that have a meaning in names, whatever the axes are.
const MEANINGS: [&str; 9] = ["all", "average", "best", "false", "final", "mean", "none", "null", "true"];

/// The text with a mark in place of the words that are values of axes.
pub fn with_open_words(text: &str, values: &BTreeSet<String>) -> String {
    static SPLIT: LazyLock<Regex> = LazyLock::new(|| regex(&format!("(?i)^(?:{SPLITS})$")));
    let is_open = |value: &&String| {
        let lower = value.to_ascii_lowercase();
        value.len() > 1
            && value.contains(|char: char| char.is_ascii_alphabetic())
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+/-".contains(&byte))
            && !SPLIT.is_match(value)
            && !STEPS.contains(&lower.as_str())
            && !MEANINGS.contains(&lower.as_str())
            && Better::of_last_word(&lower).is_none()
    };
    values.iter().filter(is_open).fold(text.to_owned(), |text, value| marked(&text, value))
}

/// A text with the mark in place of a word, in any case.
fn marked(text: &str, word: &str) -> String {
    let (lower, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in lower.match_indices(&word) {
        let is_inner = |char: char| char.is_alphanumeric() || char == '_';
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        let continues =
            after.starts_with(is_inner) || after.starts_with(['-', '.']) && after[1..].starts_with(is_inner);
        if at < done || continues || before.ends_with(is_inner) || before.ends_with(['-', '/', '.']) {
            continue;
        }
        out.push_str(&text[done..at]);
        out.push_str(MARK);
        done = at + word.len();
    }
    out.push_str(&text[done..]);
    out
}

/// The name without the marked words; `None` if no other word is left.
fn without_mark(name: &str) -> Option<String> {
    if !name.to_ascii_lowercase().contains(NAME) {
        return Some(name.to_owned());
    }
    let is_other = |part: &&str| !part.is_empty() && !part.eq_ignore_ascii_case(MARK);
    let parts = name.split('.').map(|part| part.split('_').filter(is_other).collect::<Vec<_>>().join("_"));
    let name = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    (!name.is_empty()).then_some(name)
}

/// The numbers with open words in place of the mark.
pub(super) fn opened(numbers: PrintedNumbers) -> PrintedNumbers {
    let shown = |text: &str| text.replace(MARK, "…").replace(NAME, "…");
    let (mut read, mut others): (Vec<Printed>, Vec<Missed>) = (Vec::new(), Vec::new());
    for Printed { name, pattern, line } in numbers.read {
        let line = shown(&line);
        let Some(own_name) = without_mark(&name) else { continue };
        if read.iter().any(|other| other.name == own_name) {
            others.push(Missed::new(&own_name, &line, Why::Other));
            continue;
        }
        let places =
            [("}", "}"), (":", ":")].map(|(old, new)| (format!("{{{name}{old}"), format!("{{{own_name}{new}")));
        let pattern = places.iter().fold(pattern, |pattern, (old, new)| pattern.replace(old, new)).replace(MARK, ANY);
        read.push(Printed { name: own_name, pattern, line });
    }
    let missed = numbers.missed.into_iter().filter_map(|mut missed| {
        missed.name = without_mark(&missed.name)?;
        missed.line = shown(&missed.line);
        missed.why = missed.why.with_texts(shown);
        Some(missed)
    });
    PrintedNumbers { read, missed: missed.chain(others).collect() }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{last_value, printed_results},
        *,
    };

    #[test]
    fn values_of_axes_are_no_parts_of_names() {
        for (line, name) in [
            ("Test accuracy with adam: 0.375", "test_accuracy"),
            ("adam accuracy: 0.375", "accuracy"),
            ("accuracy (adam): 0.375", "accuracy"),
            ("[Adam] epoch 1 loss 0.375", "loss"),
            ("opt=adam loss=0.375", "loss"),
            ("{\"adam\": {\"acc\": 0.375}}", "acc"),
        ] {
            let other = line.replace("adam", "sgd").replace("Adam", "SGD").replace("0.375", "0.25");
            let outputs = [(line, "adam"), (other.as_str(), "sgd")];
            let texts = outputs.map(|(text, value)| with_open_words(text, &BTreeSet::from([value.to_owned()])));
            let read = printed_results(texts.iter().map(String::as_str)).read;
            assert_eq!(read.iter().map(|number| number.name.as_str()).collect::<Vec<_>>(), [name], "{line}: {read:?}");
            let values = outputs.map(|(text, _)| last_value(&read[0], text));
            assert_eq!(values, [Some(0.375), Some(0.25)], "{line}: {}", read[0].pattern);
        }
        let text =
            with_open_words("method: adam\nacc 0.5\nmethod: sgd\nacc 0.75", &BTreeSet::from(["adam".to_owned()]));
        let missed = printed_results(std::iter::once(text.as_str())).missed;
        let why: Vec<String> = missed.iter().map(|missed| missed.why.to_string()).collect();
        assert_eq!(why, ["is read for `method: …` and `method: sgd`, of which the last one counts"]);
        // Of two lines that differ in such a word only, one is read and the other one is named.
        let text = with_open_words("[adam] loss: 0.5\nloss: 0.25", &BTreeSet::from(["adam".to_owned()]));
        let PrintedNumbers { read, missed } = printed_results(std::iter::once(text.as_str()));
        assert_eq!((read.len(), missed.len()), (1, 1), "{read:?} {missed:?}");
        assert_eq!(without_mark("my__loss").as_deref(), Some("my__loss"));
        let values = BTreeSet::from(["loss", "test", "a", "0.5", "two words"].map(str::to_owned));
        let text = "loss 0.5 test a two words";
        assert_eq!(with_open_words(text, &values), text);
        let values = BTreeSet::from(["adam".to_owned()]);
        assert_eq!(
            with_open_words("adamw adam-2 x_adam adam. Adam", &values),
            "adamw adam-2 x_adam Openword. Openword"
        );
    }
}
