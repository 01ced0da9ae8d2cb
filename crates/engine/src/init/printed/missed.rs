//! Numbers that a program printed and that no pattern reads.

use std::{fmt, sync::LazyLock};

use regex::Regex;
use sweep_job::tasks::Number;

use super::{
    Wanted, joined,
    names::{MAX_WORDS, is_slashed, name_of_unit},
    regex,
};
use crate::stats::Better;

/// A number that a program printed and that no pattern reads, or that a pattern reads together with other numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// The name of the metric.
    pub name: String,
    /// A line that has it.
    pub line: String,
    /// The reason.
    pub why: Why,
}

/// The reason why a number is not read, or not alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Equal lines are in several parts of the output, with these names.
    Sections(Vec<String>),
    /// No pattern distinguishes its lines from other lines.
    Form,
    /// Other lines have its name.
    Other,
    /// This text is not a whole number.
    Text(String),
    /// It is a list.
    List,
    /// It is on the line below its name.
    Below,
    /// It is read below several headings.
    Headings(Vec<String>),
    /// It is read in lines of several processes.
    Processes(String),
    /// It is read in rows of a table with several values of this column.
    Rows(String),
}

impl Why {
    /// The reason with other texts of the output.
    pub(super) fn with_texts(self, other: impl Fn(&str) -> String) -> Self {
        let all = |texts: Vec<String>| texts.iter().map(|text| other(text)).collect();
        match self {
            Self::Sections(names) => Self::Sections(all(names)),
            Self::Headings(names) => Self::Headings(all(names)),
            Self::Text(text) => Self::Text(other(&text)),
            Self::Processes(mark) => Self::Processes(other(&mark)),
            Self::Rows(column) => Self::Rows(other(&column)),
            why @ (Self::Form | Self::Other | Self::List | Self::Below) => why,
        }
    }

    /// True for a number that is read.
    pub(super) fn is_of_read(&self) -> bool {
        matches!(self, Self::Headings(_) | Self::Processes(_) | Self::Rows(_))
    }
}

impl Missed {
    pub(super) fn new(name: &str, line: &str, why: Why) -> Self {
        Self { name: name.to_owned(), line: line.trim().to_owned(), why }
    }

    /// True if the number is read under `name`, which ends with its unit: `latency: 3.00ms` is `latency_ms`.
    pub(super) fn is_read_as(&self, name: &str) -> bool {
        let Why::Text(text) = &self.why else { return false };
        let unit = text.trim_start_matches(|char: char| !char.is_alphabetic());
        name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('_')) == Some(&name_of_unit(unit))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |names: &[String]| {
            let name = |name: &String| if name.is_empty() { "no heading".to_owned() } else { format!("`{name}`") };
            let shown = names.iter().take(MAX_NAMES).map(name).collect::<Vec<_>>().join(" and ");
            if names.len() > MAX_NAMES { format!("{shown} and others") } else { shown }
        };
        match self {
            Self::Sections(names) => write!(to, "is not read, because lines below {} are alike", quoted(names)),
            Self::Form => to.write_str("is not read, because no pattern distinguishes its lines from others"),
            Self::Other => to.write_str("is not read from lines of another form"),
            Self::Text(text) => write!(to, "is not read, because `{text}` is not a whole number"),
            Self::List => to.write_str("is not read, because it is a list"),
            Self::Below => {
                to.write_str("is not read, because it is on the line below its name; print both in one line")
            }
            Self::Headings(names) => write!(to, "is read for {}, of which the last one counts", quoted(names)),
            Self::Rows(column) => {
                write!(to, "is read in rows with several values of `{column}`, of which the last one counts")
            }
            Self::Processes(mark) => {
                write!(to, "is read from lines that begin with `{mark}` and the like, of which the last one counts")
            }
        }
    }
}

/// A name and a text with digits that is not a number, or a list.
static TEXT: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?<words>[A-Za-z][A-Za-z0-9_@/^-]*(?:[ \t]+[A-Za-z][A-Za-z0-9_@^]*){0,2})(?<remark>)",
        r"(?:['\x22]?[ \t]*(?:[-=]>|→|[:=])[ \t]*|[ \t]+)",
        r"(?<number>\[\s*$|\[[ \t]*[-+]?[.\d][^\s\]]*[, ]|[-+]?[.]?\d\S*(?:[ \t]+[-+]?[.]?\d\S*)+[ \t]*$",
        r"|[-+\x{2212}]?[.]?\d[^\s;|\])}]*)",
    ))
});
/// A line that may be the name of the number on the next line, as R prints lists and vectors.
static NAME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[ \t$]*(?<words>[A-Za-z][A-Za-z0-9_@. -]{0,40}?)[ \t]*:?[ \t]*$"));
/// A line that is a number.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[ \t]*(?:\[1\][ \t]*)?[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[ \t]*%?[ \t]*$"));
/// Maximum number of sections that are named.
const MAX_NAMES: usize = 3;
/// Longest text that is quoted, in characters.
const MAX_QUOTED: usize = 24;

/// The names in a line with texts in place of numbers.
pub(super) fn of_line(line: &str, wanted: Wanted<'_>) -> Vec<Missed> {
    let mut missed = Vec::new();
    let mut start = 0;
    while let Some(found) = TEXT.captures_at(line, start) {
        let Some(number) = found.name("number") else { break };
        start = number.end();
        let slashed = found.name("words").filter(|words| is_slashed(words.as_str()));
        let name = match slashed {
            Some(words) => {
                let words: Vec<&str> = line[..words.end()].split_whitespace().rev().take(MAX_WORDS).collect();
                Some(joined(&words.into_iter().rev().collect::<Vec<_>>())).filter(|name| wanted.has(name))
            }
            None => wanted.named(line, &found).map(|(name, _)| name),
        };
        let Some(name) = name else { continue };
        let text: String = number.as_str().trim().trim_end_matches([',', '.', ':']).chars().take(MAX_QUOTED).collect();
        let is_list = slashed.is_some() || text.starts_with('[') || text.contains([' ', '\t']);
        let is_number = Number::parse(&text).is_some();
        let why = if is_list {
            Why::List
        } else if is_number {
            Why::Form
        } else {
            Why::Text(text)
        };
        missed.push(Missed::new(&name, line, why));
    }
    missed
}

/// The number of a line whose name is the line before.
pub(super) fn below(previous: &str, line: &str, wanted: Wanted<'_>) -> Option<Missed> {
    let found = NUMBER.is_match(line).then(|| NAME.captures(previous)).flatten()?;
    let name = joined(&found["words"].split_whitespace().collect::<Vec<_>>());
    let is_wanted = matches!(wanted, Wanted::Results) && Better::of_last_word(&name).is_some();
    is_wanted.then(|| Missed::new(&name, &format!("{} {}", previous.trim(), line.trim()), Why::Below))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{printed_numbers, printed_results};

    /// The messages about the numbers in an output.
    fn said(output: &str) -> Vec<String> {
        let missed = printed_results(std::iter::once(output)).missed;
        missed.into_iter().map(|missed| format!("{} {}", missed.name, missed.why)).collect()
    }

    #[test]
    fn a_number_that_is_read_with_its_unit_is_not_missed() {
        let output = "latency: 3.00ms\nmemory: 1.50GB\nspeed: 3x";
        let found = printed_numbers(std::iter::once(output), &BTreeSet::new());
        assert_eq!(
            found.read.iter().map(|number| number.name.as_str()).collect::<Vec<_>>(),
            ["latency_ms", "memory_gb"]
        );
        assert_eq!(found.missed.iter().map(|missed| missed.name.as_str()).collect::<Vec<_>>(), ["speed"]);
    }

    #[test]
    fn numbers_of_parts_of_an_output_are_named() {
        for (output, expected) in [
            ("Loss train/test: 1.5/0.75", "loss_train_test is not read, because it is a list"),
            (
                "Training:\nloss: 0.5\nValidation:\nloss: 0.7",
                "loss is not read, because lines below `training` and `validation` are alike",
            ),
            (
                "{\n\"a\": {\n\"loss\": 1\n},\n\"b\": {\n\"loss\": 2\n}\n}",
                "loss is not read, because lines below `a` and `b` are alike",
            ),
            (
                "Test accuracy:\n[1] 0.333",
                "test_accuracy is not read, because it is on the line below its name; print both in one line",
            ),
            (
                "classif.acc \n  0.3333333 ",
                "classif.acc is not read, because it is on the line below its name; print both in one line",
            ),
            (
                "Fold 1/2\nacc 0.5\nTraining fold 2 of 2...\nacc 0.7",
                "acc is read for `Fold 1` and `fold 2`, of which the last one counts",
            ),
        ] {
            assert_eq!(said(output), [expected], "{output}");
        }
    }

    #[test]
    fn a_number_that_is_not_read_is_named() {
        for (output, expected) in [
            ("loss: 0,5", "loss is not read, because `0,5` is not a whole number"),
            ("loss: 1.2k", "loss is not read, because `1.2k` is not a whole number"),
            ("{\"epoch\": 1, \"loss\": [0.9, 0.8]}", "loss is not read, because it is a list"),
            ("loss: [0.9 0.8]", "loss is not read, because it is a list"),
            ("\"loss\": [\n0.9,\n0.8\n]", "loss is not read, because it is a list"),
            ("$loss\n[1] 0.25\n", "loss is not read, because it is on the line below its name; print both in one line"),
            ("loss: 1 0.5 0.2 ", "loss is not read, because it is a list"),
            ("Accuracy 0.333 0.9", "accuracy is not read, because it is a list"),
            (
                ">>> Evaluating on cora\nacc 0.5\n>>> Evaluating on pubmed\nacc 0.7",
                "acc is read for `cora` and `pubmed`, of which the last one counts",
            ),
            (
                "Class: road, IoU: 0.5\nClass: car, IoU: 0.7",
                "iou is read for `Class: car` and `Class: road`, of which the last one counts",
            ),
            (
                "Checking accuracy on training data\nacc 0.5\nChecking accuracy on test data\nacc 0.7",
                "acc is read for `test` and `training`, of which the last one counts",
            ),
            (
                "Pretraining\nloss 0.5\nFinetuning...\nloss 0.7",
                "loss is read for `Finetuning` and `Pretraining`, of which the last one counts",
            ),
            ("loss: 5 000", "loss is not read, because it is a list"),
            ("loss: 0.5, 0.4, 0.3", "loss is not read, because it is a list"),
            (
                "Model A:\nacc 0.5\nModel B:\nacc 0.7",
                "acc is read for `Model A` and `Model B`, of which the last one counts",
            ),
            ("lr=0.1\nacc 0.5\nlr=0.2\nacc 0.7", "acc is read for `lr=0.1` and `lr=0.2`, of which the last one counts"),
            ("Fold 1: acc 0.5\nFold 2: acc 0.7", "acc is read for `Fold 1` and `Fold 2`, of which the last one counts"),
            (
                "  mtry  RMSE\n  2     1.0\n  3     1.5\n",
                "rmse is read in rows with several values of `mtry`, of which the last one counts",
            ),
            (
                "  fold accuracy\n1 1 0.5\n2 2 0.7\n",
                "accuracy is read in rows with several values of `fold`, of which the last one counts",
            ),
            (
                "[0]: acc 0.5\n[1]: acc 0.7",
                "acc is read from lines that begin with `[0]:` and the like, of which the last one counts",
            ),
            (
                "(Worker pid=7) acc 0.5\n(Worker pid=8) acc 0.7",
                "acc is read from lines that begin with `(Worker pid=…)` and the like, of which the last one counts",
            ),
        ] {
            assert_eq!(said(output), [expected], "{output}");
        }
        for output in [
            "loss: 0.5\nval loss: 0.7",
            "Epoch 1:\nloss 0.5\nEpoch 2:\nloss 0.4",
            "AP50 AP75",
            "epoch loss\n1 0.5\n2 0.4",
            "time,loss\n1,0.5\n2,0.4",
            "   model rmse mae\n1 lm 1 2\n2 rf 3 4",
            "[5]: loss 1\n[9]: loss 2",
            "Training on cuda:0\nloss 0.5\nEvaluating on cpu\nloss 0.4",
        ] {
            assert_eq!(said(output), [""; 0], "{output}");
        }
    }
}
