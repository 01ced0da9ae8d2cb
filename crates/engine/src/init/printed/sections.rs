//! The parts of an output in which lines are: below headings, and within objects of JSON that are written in several lines.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use super::{STEPS, names::SPLITS, regex};

/// A line that has only the name of a split of the data, which the lines below it are about.
static SPLIT: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r#"(?i)^[\s=*#"'{{-]*(?<tag>{SPLITS})\b[^\d.,]{{0,20}}?[\s:=*#"'{{-]*$"#)));
/// A line that opens an object or a list within JSON of several lines, with its key.
static OPEN: LazyLock<Regex> = LazyLock::new(|| regex(r#"^\s*(?:['"](?<key>[^'"]+)['"]\s*:\s*)?[{\[]\s*$"#));
/// A line that closes one.
static CLOSE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*[}\]]\s*,?\s*$"));
/// A line that is the heading of the lines below it: `Model A:`, `== Model A ==`.
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\s*(?:(?<text>[A-Za-z][\w ()./-]{0,40}):|[=*#-]{2,}\s*(?<decorated>[A-Za-z][\w ()./:-]{0,40}?)\s*[=*#-]*)\s*$",
    )
});

/// A line of words with a numbered subject, which the lines below it are about: `Fold 1/5`, `Training fold 2 of 5...`.
static COUNTED_HEADING: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)^\W*(?:(?:now|start(?:ing)?|begin(?:ning)?|train(?:ing)?|run(?:ning)?|evaluat(?:ing|ion)|test(?:ing)?|process(?:ing)?|using|with|for|on",
        r"|cross[- ]validation)[ \t]+){0,3}(?<counted>(?:client|cv|domain|expert|fold|group|member|model|repeat|repetition|run|seed|split|subject|task",
        r"|trial)[ \t:=#_-]*\d+)(?:[ \t]*(?:/|of)[ \t]*\d+)?[\s.:=*#-]*$",
    ))
});
/// A line with the data or model that the lines below it are about: `>>> Evaluating on cora`.
static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^\W*(?:evaluating|testing|running|training|processing)[ \t]+(?:(?:on|with|for)[ \t]+)?(?:data ?set[ \t]+)?(?<text>[\w./-]+)(?:[ \t]+data ?set)?[\s.:=*#-]*$",
    )
});
/// A line with the stage of the program that the lines below it are about: `Validating...`, `Checking accuracy on test data`.
static STAGE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r"(?i)^\W*(?:(?<stage>(?:train|validat|test|evaluat)(?:ing|ion))[ \t]*(?:\.{{2,}}|…)|(?<phase>(?:pre-?|fine-?)(?:training|tuning))|(?:checking|computing|calculating|measuring|evaluating)[ \t][^\d]*\bon[ \t]+(?:the[ \t]+)?(?<split>{SPLITS})(?:[ \t]+(?:data|images|samples|set|split))*)[\s.:…]*$"
    ))
});
/// Subjects that are devices or no names.
const DEVICES: [&str; 8] = ["accelerator", "cpu", "cuda", "device", "gpu", "model", "mps", "tpu"];

/// The number of a line's subject: `Fold 3: accuracy 0.9`.
static COUNTED: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)(?:^|[^A-Za-z])(?<counted>(?:agent|class|client|cv|domain|expert|fold|group|head|layer|member|model|repeat|repetition|run|seed",
        r"|split|subject|task|threshold|trial|worker)[ _:=#-]*\d+(?:\.\d+)?|(?:category|class|dataset|domain|subset)[ ]*[:=][ ]*[A-Za-z][\w-]*|__label__\w+)(?:[^.\d]|$)",
    ))
});
/// A line with a setting, which the lines below it are about if a program runs several: `lr=0.1`, `kernel: linear`.
static SETTING: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)^\W*(?<setting>(?:activation|alpha|batch[ _-]?size|beta|c|dataset|depth|dropout|fold|gamma|hidden(?:[ _-]\w+)?|k|kernel|lambda",
        r"|learning[ _-]?rate|lr|method|model|momentum|optimizer|temperature|weight[ _-]?decay|width)[ \t]*[:=][ \t]*\S+)\W*$",
    ))
});
/// The number of a step in a heading.
static STEP_NUMBER: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r"(?i)\b({}|batch|round)\b[ #:]*\d+", STEPS.join("|"))));

/// The part of an output in which a line is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Section {
    /// A split of the data, and the keys of the objects around it. Lines of different parts have different numbers.
    pub(super) part: String,
    /// The heading, or the line's numbered subject, such as `Fold 3`. Lines below different headings may be about different things.
    pub(super) heading: String,
}

/// The part of an output in which the latest line is.
#[derive(Debug, Default)]
pub(super) struct Sections {
    split: String,
    heading: String,
    keys: Vec<String>,
}

impl Sections {
    /// The section of the next line.
    pub(super) fn of(&mut self, line: &str) -> Section {
        if let Some(found) = OPEN.captures(line) {
            self.keys.push(found.name("key").map_or_else(String::new, |key| key.as_str().to_owned()));
        } else if CLOSE.is_match(line) {
            self.keys.pop();
        } else if let Some(found) = SPLIT.captures(line) {
            self.split = found["tag"].to_ascii_lowercase();
            self.heading.clear();
        } else if let Some(found) = COUNTED_HEADING.captures(line) {
            found["counted"].clone_into(&mut self.heading);
        } else if let Some(found) = STAGE.captures(line) {
            let name = found.name("stage").or_else(|| found.name("phase")).or_else(|| found.name("split"));
            self.heading = name.map_or_else(String::new, |name| name.as_str().to_owned());
        } else if let Some(subject) = SUBJECT.captures(line).and_then(|found| subject(&found["text"])) {
            self.heading = subject;
        } else if let Some(found) = SETTING.captures(line) {
            found["setting"].clone_into(&mut self.heading);
        } else if let Some(found) = HEADING.captures(line) {
            let text = found.name("text").or_else(|| found.name("decorated")).map_or("", |text| text.as_str());
            self.heading = STEP_NUMBER.replace_all(text, "$1").into_owned();
        }
        // A line of another form ends JSON that was not closed.
        if line.starts_with(|char: char| char.is_alphanumeric()) {
            self.keys.clear();
        }
        let counted = COUNTED.captures(line).and_then(|found| found.name("counted"));
        let heading = counted.map_or_else(|| self.heading.clone(), |counted| counted.as_str().to_owned());
        let keys = self.keys.iter().filter(|key| !key.is_empty());
        let split = Some(&self.split).filter(|split| !split.is_empty());
        let part: Vec<&str> = split.into_iter().chain(keys).map(String::as_str).collect();
        Section { part: part.join("."), heading }
    }
}

/// The name of a data set or model in a heading.
fn subject(text: &str) -> Option<String> {
    static OTHER: LazyLock<Regex> = LazyLock::new(|| {
        let devices = DEVICES.join("|");
        regex(&format!(r"(?i)^(?:(?:{SPLITS})(?:[_-]?set)?|(?:{devices})s?(?:[:\d].*)?|\d.*)$"))
    });
    let text = text.trim_end_matches('.');
    (!text.is_empty() && !OTHER.is_match(text)).then(|| text.to_owned())
}

/// The different names of sections.
pub(super) fn distinct(sections: &BTreeSet<Section>, name: impl Fn(&Section) -> &String) -> Vec<String> {
    sections.iter().map(name).collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_section_above_them() {
        let section = |text: &str| {
            let mut sections = Sections::default();
            let last = text.lines().map(|line| sections.of(line)).last().unwrap();
            (last.part, last.heading)
        };
        let of = |part: &str, heading: &str| (part.to_owned(), heading.to_owned());
        assert_eq!(section("Validation:\n  loss 0.5"), of("validation", ""));
        assert_eq!(section("{\n \"train\": {\n  \"loss\": 1\n },\n \"val\": {\n  \"loss\": 2"), of("val", ""));
        assert_eq!(section("{\n \"train\": {\n  \"loss\": 1\n },\n \"loss\": 2"), of("", ""));
        assert_eq!(section("\"a\": {\nloss 0.5"), of("", ""));
        assert_eq!(section("== CIFAR10 ==\nacc 0.5"), of("", "CIFAR10"));
        assert_eq!(section("Epoch 3:\nacc 0.5"), of("", "Epoch"));
        assert_eq!(section("Fold 3: acc 0.5"), of("", "Fold 3"));
        assert_eq!(section("Class 3 accuracy: 0.5"), of("", "Class 3"));
        assert_eq!(section("[CV 2/3] END C=1;, score=0.5"), of("", "CV 2"));
        assert_eq!(section("F1-Score : 0.5   __label__c"), of("", "__label__c"));
        assert_eq!(section("threshold=0.9 f1: 0.5"), of("", "threshold=0.9"));
        assert_eq!(section("lr=0.1\nval accuracy: 0.5"), of("", "lr=0.1"));
        assert_eq!(section("kernel: linear\nacc 0.5"), of("", "kernel: linear"));
        assert_eq!(section("loss 0.5\nacc 0.5"), of("", ""));
    }
}
