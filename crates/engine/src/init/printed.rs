//! Numbers that a program printed, with patterns that read them: `Epoch 3: train loss 0.25` has `train_loss` by `epoch`.
//!
//! `names.rs` names the numbers, `patterns.rs` writes their patterns, `layouts.rs` has lines whose layout names their numbers, and
//! `columns.rs` tables without bars; `forms.rs` keeps a pattern from reading lines of other numbers.

mod columns;
mod forms;
mod layouts;
mod names;
mod patterns;

use std::collections::{BTreeMap, BTreeSet};

use regex::Captures;
use sweep_job::tasks::{Pattern, Reading};

use self::{
    forms::Forms,
    layouts::Layouts,
    names::{NUMBER, Named, OTHER_RANK, SECTION, SPLIT_WORD, Tag, joined, named, separated, signature, tag_of},
    patterns::{Lead, pattern},
};
use super::languages::regex;
use crate::stats::Better;

/// A number that a program printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// The name of the metric.
    pub name: String,
    /// The pattern that reads it, for `reads.stdout`.
    pub pattern: String,
    /// The last line that has it.
    pub line: String,
}

/// Maximum number of lines that are searched, from the end.
const MAX_LINES: usize = 5_000;
/// Maximum length of a line that is searched, in bytes.
const MAX_LENGTH: usize = 1_000;
/// Words before numbers that are the steps of lines.
const STEPS: [&str; 5] = ["step", "global_step", "iteration", "iter", "epoch"];

/// The numbers in the outputs of several jobs whose names say which direction is better, in the order of their first lines.
pub fn printed_results<'o>(outputs: impl Iterator<Item = &'o str>) -> Vec<Printed> {
    of_all(outputs, Wanted::Results)
}

/// The numbers in the outputs with a name and a separator, such as `time: 1.5 ms`, except those with the names in `params`.
pub fn printed_numbers<'o>(outputs: impl Iterator<Item = &'o str>, params: &BTreeSet<&str>) -> Vec<Printed> {
    of_all(outputs, Wanted::Numbers(params))
}

/// The last value of a number in an output.
pub fn last_value(number: &Printed, output: &str) -> Option<f64> {
    let pattern = Pattern::new(&number.pattern).ok()?;
    output.lines().rev().take(MAX_LINES).find_map(|line| value(&pattern, line))
}

/// The number that a pattern reads in a line.
fn value(pattern: &Pattern, line: &str) -> Option<f64> {
    match pattern.find(line)?.parts.pop()? {
        (_, Reading::Number(number)) => Some(number.value),
        _ => None,
    }
}

/// The numbers that are looked for.
#[derive(Clone, Copy)]
enum Wanted<'p> {
    /// Those whose names say which direction is better.
    Results,
    /// Those with a name and a separator, without these names.
    Numbers(&'p BTreeSet<&'p str>),
}

impl Wanted<'_> {
    /// The name of a number in a line.
    fn named<'t>(self, line: &'t str, number: &Captures<'t>) -> Named<'t> {
        match self {
            Self::Results => named(line, number),
            Self::Numbers(params) => separated(line, number, params),
        }
    }

    /// True for the name of a number whose line has a layout that names it.
    fn has(self, name: &str) -> bool {
        match self {
            Self::Results => Better::of_name(name.rsplit('.').next().unwrap_or(name)).is_some(),
            Self::Numbers(params) => !names::is_setting(name, params),
        }
    }
}

fn of_all<'o>(outputs: impl Iterator<Item = &'o str>, wanted: Wanted<'_>) -> Vec<Printed> {
    let mut numbers: Vec<Printed> = Vec::new();
    for output in outputs {
        let mut lines: Vec<&str> =
            output.lines().rev().take(MAX_LINES).filter(|line| line.len() <= MAX_LENGTH).collect();
        lines.reverse();
        lines.retain(|line| !OTHER_RANK.is_match(line));
        let found = collect(&lines, wanted);
        let is_new = |number: &Printed| numbers.iter().all(|known| known.name != number.name);
        let new: Vec<Printed> = found.into_iter().filter(is_new).collect();
        numbers.extend(new);
    }
    numbers
}

/// A number of a line.
struct Occurrence<'t> {
    /// The index of the line.
    at: usize,
    captures: Captures<'t>,
    /// The name, without that of the tag.
    base: String,
    /// All words before the number.
    longer: String,
    tag: Option<Tag>,
    /// The words that may tell its line from others with the same name.
    signature: BTreeMap<String, (usize, String)>,
    section: String,
}

impl Occurrence<'_> {
    fn name_of(&self, base: &str) -> String {
        match &self.tag {
            Some(tag) if !base.starts_with(&tag.name) => format!("{}_{base}", tag.name),
            _ => base.to_owned(),
        }
    }

    fn name(&self) -> String {
        self.name_of(&self.base)
    }

    /// The pattern that reads it under a name.
    fn pattern(&self, line: &str, name: &str) -> String {
        pattern(line, &self.captures, name, self.tag.as_ref().and_then(Lead::of))
    }

    /// Patterns that read it under a name, and fewer other lines.
    fn narrow(&self, line: &str, name: &str) -> Vec<String> {
        let leads = [Lead::first_word(line, &self.captures), Lead::whole(line, &self.captures)];
        let leads = leads.into_iter().filter(|_| self.tag.is_none());
        leads.map(|lead| pattern(line, &self.captures, name, Some(lead))).collect()
    }
}

/// Numbers in the order of their first lines.
#[derive(Default)]
struct Numbers {
    all: Vec<Taken>,
    /// The sections in which each name is.
    sections: BTreeMap<String, BTreeSet<String>>,
    /// True for each pattern that reads the number of its line.
    known: BTreeMap<String, bool>,
}

struct Taken {
    printed: Printed,
    /// Patterns that read fewer lines.
    narrow: Vec<String>,
    /// The indices of its lines.
    lines: BTreeSet<usize>,
}

impl Numbers {
    fn of_name(&self, name: &str) -> Option<&Taken> {
        self.all.iter().find(|taken| taken.printed.name == name)
    }

    /// Takes a number of a line. Returns false if its name is that of a number with another pattern.
    fn take(
        &mut self,
        name: &str,
        pattern: String,
        (at, line): (usize, &str),
        narrow: impl FnOnce() -> Vec<String>,
    ) -> bool {
        let printed = Printed { name: name.to_owned(), pattern, line: line.trim().to_owned() };
        match self.all.iter_mut().find(|taken| taken.printed.name == name) {
            Some(taken) if taken.printed.pattern == printed.pattern => {
                taken.printed = printed;
                taken.lines.insert(at);
            }
            Some(_) => return false,
            None => self.all.push(Taken { printed, narrow: narrow(), lines: BTreeSet::from([at]) }),
        }
        true
    }

    /// Takes a number of a line without a layout, if its pattern reads it.
    fn take_occurrence(&mut self, occurrence: &Occurrence<'_>, name: &str, line: &str) -> bool {
        let pattern = occurrence.pattern(line, name);
        // Of lines with the same pattern, the first decides.
        let is_read = *self
            .known
            .entry(pattern.clone())
            .or_insert_with(|| Pattern::new(&pattern).is_ok_and(|pattern| value(&pattern, line).is_some()));
        is_read && self.take(name, pattern, (occurrence.at, line), || occurrence.narrow(line, name))
    }
}

/// The wanted numbers, in the order of their first lines.
fn collect(lines: &[&str], wanted: Wanted<'_>) -> Vec<Printed> {
    let (mut numbers, mut layouts) = (Numbers::default(), Layouts::default());
    let mut occurrences = Vec::new();
    let mut section = String::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(found) = SECTION.captures(line) {
            section = found["tag"].to_ascii_lowercase();
        }
        let placed = layouts.numbers(line);
        let is_placed = !placed.is_empty();
        for (name, pattern) in placed.into_iter().filter(|(name, _)| wanted.has(name)) {
            numbers.take(&name, pattern, (at, line), Vec::new);
        }
        if !is_placed {
            occurrences.extend(of_line((at, line), wanted, &section));
        }
    }
    tell_apart(&mut occurrences);
    let mut others = Vec::new();
    for occurrence in &occurrences {
        let (line, own_name) = (lines[occurrence.at], occurrence.name());
        // Lines of another form need another pattern, and have a metric of their own: `Test set loss` beside `Loss`.
        let longer = Some(occurrence.name_of(&occurrence.longer)).filter(|longer| longer.len() > own_name.len());
        let mut names = std::iter::once(own_name).chain(longer);
        let taken = names.find(|name| numbers.take_occurrence(occurrence, name, line));
        match taken {
            Some(name) if occurrence.tag.is_none() => {
                numbers.sections.entry(name).or_default().insert(occurrence.section.clone());
            }
            Some(_) => {}
            None => others.push(occurrence),
        }
    }
    // A number in another form, behind all lines of the first form, is the result.
    for occurrence in others.into_iter().filter(|_| matches!(wanted, Wanted::Results)) {
        let (name, line) = (occurrence.name(), lines[occurrence.at]);
        let last = numbers.of_name(&name).and_then(|taken| taken.lines.last());
        if last.is_some_and(|last| *last < occurrence.at) {
            numbers.take_occurrence(occurrence, &format!("final_{name}"), line);
        }
    }
    let forms = Forms::of(lines);
    let Numbers { all, sections, .. } = numbers;
    // A line says nothing about its section, so numbers of several sections are not told apart.
    let is_told = |taken: &Taken| sections.get(&taken.printed.name).is_none_or(|sections| sections.len() < 2);
    all.into_iter().filter(is_told).filter_map(|taken| forms.only(taken)).collect()
}

/// The numbers of a line without a layout.
fn of_line<'t>((at, line): (usize, &'t str), wanted: Wanted<'_>, section: &str) -> Vec<Occurrence<'t>> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(captures) = NUMBER.captures_at(line, start) {
        start = captures.name("number").map_or(line.len(), |number| number.end());
        if let Some((base, words)) = wanted.named(line, &captures) {
            found.push((base, joined(&words), captures));
        }
    }
    let own_split = |captures: &Captures<'_>| {
        let words = captures.name("words")?;
        let (tag, inner) = names::own_split(words.as_str())?;
        Some((tag.to_owned(), words.start() + inner))
    };
    let own_splits: Vec<(String, usize)> = found.iter().filter_map(|(_, _, captures)| own_split(captures)).collect();
    let occurrences = found.into_iter().map(|(base, longer, captures)| {
        let remark = captures.name("remark").and_then(|remark| SPLIT_WORD.captures(remark.as_str()));
        let remark = remark.map(|remark| Tag { name: joined(&[&remark["tag"]]), words: Vec::new() });
        let has_own = names::own_split(&base).is_some();
        let tag = remark.or_else(|| tag_of(line, &captures, &own_splits).filter(|_| !has_own));
        let signature = signature(line, &captures, tag.as_ref(), &base);
        Occurrence { at, captures, base, longer, tag, signature, section: section.to_owned() }
    });
    occurrences.collect()
}

/// Gives numbers with the same name, in lines about different splits or with different labels, the names of these.
fn tell_apart(occurrences: &mut [Occurrence<'_>]) {
    let mut signatures: BTreeMap<String, BTreeSet<BTreeSet<String>>> = BTreeMap::new();
    for occurrence in occurrences.iter() {
        let words = occurrence.signature.keys().cloned().collect();
        signatures.entry(occurrence.name()).or_default().insert(words);
    }
    for occurrence in occurrences {
        let all = &signatures[&occurrence.name()];
        let is_common = |word: &String| all.iter().all(|signature| signature.contains(word));
        let mut own: Vec<(&String, &(usize, String))> =
            occurrence.signature.iter().filter(|(word, _)| !is_common(word)).collect();
        if all.len() > 1 && !own.is_empty() {
            own.sort_by_key(|(_, (at, _))| *at);
            let name = own.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join("_");
            // Words of the number itself are in its part of the pattern.
            let start = occurrence.captures.name("words").map_or(0, |words| words.start());
            let words = own.into_iter().map(|(_, word)| word.clone()).filter(|(at, _)| *at < start).collect();
            occurrence.tag = Some(Tag { name, words });
        }
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::tasks::Pattern;

    use super::*;

    fn printed(output: &str, params: &BTreeSet<&str>) -> Vec<Printed> {
        let results = printed_results(std::iter::once(output));
        if results.is_empty() { printed_numbers(std::iter::once(output), params) } else { results }
    }

    #[test]
    fn numbers_of_all_jobs_are_found() {
        let outputs = ["done", "loss: nan", "loss: 0.5\nval loss: 0.7", "acc 3"];
        let names: Vec<String> = printed_results(outputs.into_iter()).into_iter().map(|number| number.name).collect();
        assert_eq!(names, ["loss", "val_loss", "acc"]);
        assert_eq!(self::names("val loss -inf, device: info, inference: 3"), ["val_loss"]);
    }

    /// Returns the names of the numbers in `output`; panics if the pattern of a number is invalid.
    fn names(output: &str) -> Vec<String> {
        let numbers = printed(output, &BTreeSet::from(["lr"]));
        for number in &numbers {
            Pattern::new(&number.pattern).unwrap_or_else(|error| panic!("{}: {error}", number.pattern));
        }
        numbers.into_iter().map(|number| number.name).collect()
    }

    #[test]
    fn usual_lines_have_their_numbers() {
        assert_eq!(names("iter 10: loss 2.3012, time 30.1ms, mfu 1.20%"), ["loss"]);
        assert_eq!(names("step 0: train loss 4.2, val loss 4.3"), ["train_loss", "val_loss"]);
        assert_eq!(names("Epoch 3/10 | loss: 0.53 | acc: 91.2%"), ["loss", "acc"]);
        assert_eq!(names("Test set: Average loss: 0.0274, Accuracy: 9905/10000 (99%)"), ["average_loss", "accuracy"]);
        assert_eq!(names("Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.299824"), ["loss"]);
        assert_eq!(names("saved to model-0.5, version 1.2.3, lr 0.1, took 3 s"), Vec::<String>::new());
    }

    #[test]
    fn splits_of_the_data_have_metrics_of_their_own() {
        for lines in [
            "train: loss=0.5 acc=0.8\nvalid: loss=0.7 acc=0.6",
            "[train] loss 0.5, acc 0.8\n[valid] loss 0.7, acc 0.6",
            "epoch 3 | train: loss 0.5 acc 0.8 | valid: loss 0.7 acc 0.6",
            "train | epoch 3 | loss: 0.5 | acc: 0.8\nvalid | epoch 3 | loss: 0.7 | acc: 0.6",
            "train loss: 0.5 acc: 0.8 | valid loss: 0.7 acc: 0.6",
            "Train - loss 0.5 acc 0.8\nValid - loss 0.7 acc 0.6",
            "loss (train): 0.5, acc (train): 0.8, loss (valid): 0.7, acc (valid): 0.6",
        ] {
            let numbers = printed(lines, &BTreeSet::new());
            let names: Vec<&str> = numbers.iter().map(|number| number.name.as_str()).collect();
            assert_eq!(names, ["train_loss", "train_acc", "valid_loss", "valid_acc"], "{lines}");
            for (number, value) in numbers.iter().zip(["0.5", "0.8", "0.7", "0.6"]) {
                let pattern = Pattern::new(&number.pattern).unwrap();
                let found: Vec<String> = lines
                    .lines()
                    .filter_map(|line| pattern.find(line))
                    .map(|found| format!("{:?}", found.parts))
                    .collect();
                assert!(found.len() == 1 && found[0].contains(value), "{lines}: {} {found:?}", number.pattern);
            }
        }
        assert_eq!(
            names("[cifar10] accuracy: 0.5\n[cifar100] accuracy: 0.4"),
            ["cifar10_accuracy", "cifar100_accuracy"]
        );
        assert_eq!(names("[INFO] loss: 0.5\n[rank0] acc: 0.5"), ["loss", "acc"]);
        let sections = "Training:\n  loss: 0.5\n  lr_loss: 1\nValidation:\n  loss: 0.7\n";
        assert_eq!(names(sections), ["lr_loss"], "one name of two sections has no value");
        assert_eq!(names("Validation:\n  loss: 0.7\n"), ["loss"]);
    }

    #[test]
    fn only_the_first_rank_counts() {
        let lines = "[rank0]: loss: 0.5\n[rank1]: loss: 0.7\n";
        let number = printed_results(std::iter::once(lines)).pop().unwrap();
        let found: Vec<f64> = lines.lines().filter_map(|line| last_value(&number, line)).collect();
        assert_eq!(found, [0.5], "{}", number.pattern);
    }

    #[test]
    fn numbers_without_a_direction_are_taken_where_there_are_no_others() {
        assert_eq!(names("n=2 sum 12.5\ntime: 12.3 ms\nlr: 0.1\nepoch: 3\nseed = 1\n"), ["n", "time_ms"]);
        assert_eq!(names("Throughput = 120.5 img/s, total time: 3.5 s."), ["throughput", "total_time_s"]);
        assert_eq!(names("time: 12.3 ms\nloss: 0.5"), ["loss"]);
        let numbers = printed("time: 12.3 ms", &BTreeSet::new());
        let pattern = Pattern::new(&numbers[0].pattern).unwrap();
        assert!(pattern.find("time: 11.0 ms").is_some() && pattern.find("wall time: 11.0 ms").is_none());
        assert!(pattern.find("time: 11.0 s").is_none(), "another unit");
        assert_eq!(names("time: 900ms\ntime: 1.5 s\npeak memory: 1.25 GiB"), ["time_ms", "time_s", "peak_memory_gib"]);
        let pattern = Pattern::new(&printed("took: 3us/iter", &BTreeSet::new())[0].pattern).unwrap();
        assert!(format!("{:?}", pattern.find("took: 3us/iter")).contains("3.0"));
    }

    #[test]
    fn each_form_of_a_line_has_a_pattern_that_reads_it() {
        for (line, name, value) in [
            ("====> Test set loss: 127.4", "test_set_loss", 127.4),
            ("[9]\ttrain-rmse:0.45\ttest-rmse:0.55", "test_rmse", 0.55),
            ("{'eval_loss': 0.45, 'epoch': 1.0}", "eval_loss", 0.45),
            ("{\"loss\": 0.25}", "loss", 0.25),
            ("| loss | 0.25 |", "loss", 0.25),
            ("training has finished with loss 0.3", "loss", 0.3),
            ("Epoch 3 - val_loss: 0.5 - val_acc: 0.9", "val_acc", 0.9),
            ("acc: 0.91±0.02", "acc", 0.91),
            ("loss: tensor(0.25)", "loss", 0.25),
            ("Test set: Average loss: 0.02, Accuracy: 9905/10000 (99%)", "accuracy", 0.9905),
            ("top-1 acc: 3 / 4", "acc", 0.75),
            ("RMSE (test): 3.21", "test_rmse", 3.21),
            ("10-fold CV accuracy: 0.91 (+/- 0.03)", "accuracy", 0.91),
            ("Accuracy of the network on the 10000 test images: 54 %", "accuracy", 54.0),
            ("R^2: 0.77", "r2", 0.77),
            ("The RMSE of prediction is: 0.445", "rmse", 0.445),
            ("loss -> 0.51", "loss", 0.51),
            ("val_loss => 0.51", "val_loss", 0.51),
            ("{\"epoch\": 1, \"train\": {\"loss\": 0.5}, \"val\": {\"loss\": 0.61}}", "val.loss", 0.61),
            ("Epoch 1: val_acc improved from 0.80000 to 0.81", "val_acc", 0.81),
        ] {
            let numbers = printed_results(std::iter::once(line));
            let number = numbers.iter().find(|number| number.name == name);
            let Some(number) = number else { panic!("{line}: {numbers:?}") };
            let found = Pattern::new(&number.pattern).unwrap().find(line);
            assert!(format!("{found:?}").contains(&format!("{value:?}")), "{line}: {} {found:?}", number.pattern);
        }
        let both = "Train Epoch: 1 Loss: 2.5\n====> Test set loss: 2.4\n";
        let names: Vec<String> = printed_results(std::iter::once(both)).into_iter().map(|number| number.name).collect();
        assert_eq!(names, ["loss", "test_set_loss"]);
        assert_eq!(self::names("time: 12.3 ms\nEpoch 1 time: 11 ms"), ["time_ms"], "one name for one number");
    }

    /// The logs of 100 frameworks and examples, each below a line `@ NAME`, with the values that count behind it.
    #[test]
    fn logs_of_frameworks_have_their_numbers() {
        let logs = include_str!("printed/frameworks.txt");
        let mut wrong = Vec::new();
        for log in logs.split("\n@ ").skip(1) {
            let (name, text) = log.split_once('\n').unwrap_or_default();
            let (expected, text) = text.split_once('\n').unwrap_or_default();
            let numbers = printed(text, &BTreeSet::from(["x"]));
            let value =
                |number: &Printed| last_value(number, text).map_or("nothing".to_owned(), |value| value.to_string());
            let found: Vec<String> =
                numbers.iter().map(|number| format!("{}={}", number.name, value(number))).collect();
            if found.join(" ") != expected {
                wrong.push(format!("{name}: {}", found.join(" ")));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_metric_is_not_read_from_the_line_of_another() {
        let numbers = printed("loss 0.5\nval loss 0.7\n", &BTreeSet::new());
        let pattern = Pattern::new(&numbers[0].pattern).unwrap();
        assert!(pattern.find("loss 0.5").is_some() && pattern.find("val loss 0.7").is_none(), "{}", numbers[0].pattern);
    }
}
