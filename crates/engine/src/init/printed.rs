//! Numbers that a program printed, with patterns that read them: `Epoch 3: train loss 0.25` has `train_loss` by `epoch`.

mod layouts;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::{Captures, Regex};

use sweep_job::tasks::{Pattern, Reading};

use self::layouts::Layouts;
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
/// Units that follow numbers, and that the ends of metrics' names stand for.
const UNITS: [&str; 10] = ["ms", "s", "us", "ns", "KiB", "MiB", "GiB", "kB", "MB", "GB"];
/// Words before numbers that are the steps of lines.
const STEPS: [&str; 5] = ["step", "global_step", "iteration", "iter", "epoch"];

/// A name of up to three words, a remark in parentheses, a separator, and a number or a ratio that is not part of a version.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?<words>[A-Za-z][A-Za-z0-9_@/^-]*(?:[ \t]+[A-Za-z][A-Za-z0-9_@^]*){0,2})(?<remark>[ \t]*\([A-Za-z][A-Za-z0-9_ -]*\))?['\x22]?[ \t]*(?:[-=]>|→|[:=|])?[ \t]*(?:(?:np\.)?[a-z]+\d*\()?(?<number>(?<part>\d+)[ ]?/[ ]?(?<whole>\d+)|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?%?|[-+]?(?i:nan|inf))(?:[mun]?s|(?:[KMG]i|[kMG])B)?\.?(?:[\s,;|/\])}±]|$)",
    )
});
/// The step of a line.
static STEP: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:^|[^A-Za-z0-9_])(?<word>step|global_step|iteration|iter|epoch)(?<gap>[ \t]*[:=#]?[ \t]*)(?<number>\d+)(?:[^.\d]|$)",
    )
});

/// The metric of a line such as `Accuracy of the network on the 10000 test images: 54 %`.
static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^\W*(?:(?i:the|our|final|overall)[ \t]+)*(?<subject>[A-Za-z][A-Za-z0-9_@-]*)[ \t]+(?:of|on|for)[ \t]")
});

/// The beginning of a part of a line about a split of the data, such as `Val: loss 0.5` or `[train] loss 0.5`.
static SPLIT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:^|[^A-Za-z])(?<tag>train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?|dev)\.?(?:[ \t]*[:|>\]]|[ \t]+[-–][ \t])",
    )
});
/// The name of a split of the data before a word, or in parentheses: `train loss`, `(val)`.
static SPLIT_WORD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:^|[^A-Za-z_])(?<tag>train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?|dev)(?:[ \t)]|$)",
    )
});
/// A line that has only the name of a split of the data, which the lines below it are about.
static SECTION: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^[\s=*#-]*(?<tag>train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?|dev)\b[^\d.]{0,20}[:=*#-]*\s*$",
    )
});
/// A line of a process of several other than the first, as `torchrun` marks it.
static OTHER_RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*\[rank[1-9][0-9]*\]"));
/// The mark of the first process.
const FIRST_RANK: &str = "[rank0]";
/// A word in brackets at the beginning of a line.
static TAG: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*\[(?<tag>[A-Za-z][A-Za-z0-9_-]*)\]"));
/// A word at the beginning of a line of cells with tabs.
static FIRST_CELL: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)^\s*(?<tag>final|best)\t"));
/// Words in brackets that say nothing about numbers.
const LEVELS: [&str; 9] = ["critical", "debug", "error", "info", "main", "rank", "trace", "warn", "warning"];

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
    output.lines().rev().take(MAX_LINES).find_map(|line| match pattern.find(line)?.parts.pop()? {
        (_, Reading::Number(number)) => Some(number.value),
        _ => None,
    })
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
            Self::Numbers(params) => !is_setting(name, params),
        }
    }
}

fn of_all<'o>(outputs: impl Iterator<Item = &'o str>, wanted: Wanted<'_>) -> Vec<Printed> {
    let mut numbers: Vec<Printed> = Vec::new();
    for output in outputs {
        let lines: Vec<&str> = output.lines().rev().take(MAX_LINES).filter(|line| line.len() <= MAX_LENGTH).collect();
        let found = collect(&lines, wanted);
        let is_new = |number: &Printed| numbers.iter().all(|known| known.name != number.name);
        let new: Vec<Printed> = found.into_iter().filter(is_new).collect();
        numbers.extend(new);
    }
    numbers
}

/// The name of a number, and the words before it.
type Named<'t> = Option<(String, Vec<&'t str>)>;

/// Numbers in the order of their first lines.
#[derive(Default)]
struct Numbers {
    all: Vec<Printed>,
    places: BTreeMap<String, usize>,
    /// The sections in which each name is.
    sections: BTreeMap<String, BTreeSet<String>>,
}

impl Numbers {
    /// Takes a number of a line. Returns false if its name is that of a number with another pattern.
    fn take(&mut self, name: &str, pattern: String, line: &str) -> bool {
        let number = Printed { name: name.to_owned(), pattern, line: line.trim().to_owned() };
        match self.places.get(name) {
            Some(place) if self.all[*place].pattern == number.pattern => self.all[*place] = number,
            Some(_) => return false,
            None => {
                self.places.insert(name.to_owned(), self.all.len());
                self.all.push(number);
            }
        }
        true
    }
}

/// The wanted numbers, in the order of their first lines. `lines` begins with the last one.
fn collect(lines: &[&str], wanted: Wanted<'_>) -> Vec<Printed> {
    let (mut numbers, mut layouts, mut section) = (Numbers::default(), Layouts::default(), String::new());
    for line in lines.iter().rev().copied().filter(|line| !OTHER_RANK.is_match(line)) {
        if let Some(found) = SECTION.captures(line) {
            section = found["tag"].to_ascii_lowercase();
        }
        let placed = layouts.numbers(line);
        let is_placed = !placed.is_empty();
        for (name, pattern) in placed.into_iter().filter(|(name, _)| wanted.has(name)) {
            numbers.take(&name, pattern, line);
        }
        if is_placed {
            continue;
        }
        let mut start = 0;
        while let Some(number) = NUMBER.captures_at(line, start) {
            start = number.name("number").map_or(line.len(), |number| number.end());
            let Some((name, words)) = wanted.named(line, &number) else { continue };
            // Of each split, the number is another one.
            let remark = number.name("remark").and_then(|remark| SPLIT_WORD.captures(remark.as_str()));
            let remark = remark.map(|remark| joined(&[&remark["tag"]]));
            let tag = tag_of(line, &number).map(|(tag, _)| joined(&[tag]));
            let is_of_section = tag.is_none() && remark.is_none();
            let of_tag = |name: String| match tag.as_ref().or(remark.as_ref()) {
                Some(tag) if !name.starts_with(tag) => format!("{tag}_{name}"),
                _ => name,
            };
            let name = of_tag(name);
            // Lines of another form need another pattern, and have a metric of their own: `Test set loss` beside `Loss`.
            let longer = Some(of_tag(joined(&words))).filter(|longer| longer.len() > name.len());
            let mut names = std::iter::once(name).chain(longer);
            let taken = names.find(|name| numbers.take(name, pattern(line, &number, name), line));
            if let Some(name) = taken.filter(|_| is_of_section) {
                numbers.sections.entry(name).or_default().insert(section.clone());
            }
        }
    }
    // A line says nothing about its section, so numbers of several sections are not told apart.
    let Numbers { all, sections, .. } = numbers;
    all.into_iter().filter(|number| sections.get(&number.name).is_none_or(|sections| sections.len() < 2)).collect()
}

/// Returns the last words before a number that together name a metric, and all of the words.
fn named<'t>(line: &'t str, number: &Captures<'t>) -> Named<'t> {
    let words: Vec<&str> = number.name("words")?.as_str().split_whitespace().collect();
    if unit_of(line, number).is_some() {
        return None;
    }
    let mut names = (0..words.len()).map(|first| joined(&words[first..]));
    let is_known = |name: &String| Better::of_name(name).is_some();
    let has_separator = || line[number.name("words").map_or(0, |words| words.end())..].starts_with([':', '=']);
    let subject = || {
        SUBJECT.captures(line).filter(|_| has_separator()).map(|found| joined(&[&found["subject"]])).filter(is_known)
    };
    let name = names.find(is_known).or_else(subject)?;
    Some((name, words))
}

/// The word that tells which part of the data a number is about, before its own words, and the place of that word.
fn tag_of<'t>(line: &'t str, number: &Captures<'t>) -> Option<(&'t str, usize)> {
    let end = number.name("words")?.start();
    let tag = |found: Captures<'t>| found.name("tag").map(|tag| (tag.as_str(), tag.start()));
    let splits = SPLIT.captures_iter(line).filter(|found| found.get(0).is_some_and(|found| found.end() <= end));
    let is_level = |tag: &str| {
        LEVELS
            .iter()
            .any(|level| tag.to_ascii_lowercase().trim_end_matches(|char: char| char.is_ascii_digit()) == *level)
    };
    // `train loss: 9 acc: 0.9 | val loss: 8 acc: 0.8`: the second number of each part is about its split, too.
    let words = || SPLIT_WORD.captures_iter(line).filter_map(tag);
    let of_words = || {
        let tags: BTreeSet<String> = words().map(|(tag, _)| tag.to_ascii_lowercase()).collect();
        let is_own = ["words", "remark"]
            .into_iter()
            .filter_map(|part| number.name(part))
            .any(|part| SPLIT_WORD.is_match(part.as_str()));
        (tags.len() > 1 && !is_own).then(|| words().filter(|(_, at)| *at < end).last()).flatten()
    };
    let first_cell = || FIRST_CELL.captures(line).filter(|found| found.get(0).is_some_and(|found| found.end() <= end));
    let bracketed = || TAG.captures(line).and_then(tag).filter(|(tag, _)| !is_level(tag));
    splits.filter_map(tag).last().or_else(of_words).or_else(bracketed).or_else(|| first_cell().and_then(tag))
}

/// The unit behind a number, and whether there is space before it.
fn unit_of<'t>(line: &'t str, number: &Captures<'t>) -> Option<(&'t str, bool)> {
    let rest = &line[number.name("number")?.end()..];
    let text = rest.trim_start();
    let unit = &text[..text.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(text.len())];
    UNITS.contains(&unit).then_some((unit, text.len() < rest.len()))
}

/// True for a number such as `98/100`.
fn is_ratio(number: &Captures<'_>) -> bool {
    number.name("whole").is_some()
}

/// The name of a metric that is made of words.
fn joined(words: &[&str]) -> String {
    words.join("_").replace(['@', '/', '-'], "_").replace('^', "").to_ascii_lowercase()
}

/// The words before a number and its separator. A unit behind the number ends the name: `time: 1.5 ms` is `time_ms`.
fn separated<'t>(line: &'t str, number: &Captures<'t>, params: &BTreeSet<&str>) -> Named<'t> {
    let (words, value) = (number.name("words")?, number.name("number")?);
    if is_ratio(number) || !line[words.end()..value.start()].contains([':', '=', '>', '→']) {
        return None;
    }
    let words: Vec<&str> = words.as_str().split_whitespace().collect();
    let mut name = joined(&words);
    if let Some((unit, _)) = unit_of(line, number) {
        name = format!("{name}_{}", unit.to_ascii_lowercase());
    }
    (!is_setting(&name, params)).then_some((name, words))
}

/// True for the name of an axis, of a step or of a seed.
fn is_setting(name: &str, params: &BTreeSet<&str>) -> bool {
    params.contains(name) || STEPS.contains(&name) || name.contains("seed")
}

/// A pattern for a number in a line: its words, after the step if the line has one before them.
fn pattern(line: &str, number: &Captures<'_>, name: &str) -> String {
    let (words, begin, end) =
        number.name("words").map_or(("", 0, 0), |words| (words.as_str(), words.start(), words.end()));
    let words: Vec<String> = words.split_whitespace().map(regex::escape).collect();
    let is_quoted = line[end..].starts_with(['\'', '"']);
    let quote = if is_quoted { r#"['"]?"# } else { "" };
    let remark = number.name("remark").map_or("", |remark| remark.as_str());
    let after = line[end + remark.len() + usize::from(is_quoted)..].trim_start();
    let arrow = ["->", "=>", "→"].into_iter().find(|arrow| after.starts_with(arrow));
    let separator = arrow.unwrap_or(if after.starts_with('|') { r"\|" } else { "[:=]?" });
    let placeholder = if is_ratio(number) { format!("{{{name}:ratio}}") } else { format!("{{{name}}}") };
    // A program that chooses the unit by the size of the number has another metric for each unit.
    let unit = match unit_of(line, number) {
        Some((unit, has_space)) => format!("{}{unit}(?:[^A-Za-z]|$)", if has_space { r"\s+" } else { "" }),
        None => String::new(),
    };
    let reading =
        format!(r"{}{}{quote}\s*{separator}\s*{placeholder}{unit}", words.join(r"\s+"), regex::escape(remark));
    // A word before the first one would make it another metric, unless the line has more words than a name.
    let before = line[..begin].trim_end();
    let continues = before.len() < begin && before.ends_with(|char: char| char.is_ascii_alphabetic() || char == '_');
    let boundary = match line[..begin].ends_with('-') {
        true => "-",
        false if continues => r"(?:^|\s)",
        false => r"(?:^|[^A-Za-z_\s-]|\s-)\s*",
    };
    let step = STEP.captures(line).filter(|step| step.get(0).is_some_and(|step| step.end() <= end));
    let step_start = step.as_ref().and_then(|step| step.name("word")).map_or(0, |word| word.start());
    let step = step.map(|step| {
        let word = &step["word"];
        format!(r"{word}\s*[:=#]?\s*{{{}}}", word.to_ascii_lowercase())
    });
    let gap = if continues { r".*?\s" } else { r"(?:.*?[^A-Za-z_\s])??\s*" };
    let tag = tag_of(line, number).map(|(tag, at)| (format!(r"(?:^|[^A-Za-z]){}[^A-Za-z]", regex::escape(tag)), at));
    let whole = match (tag, step) {
        (Some((tag, at)), Some(step)) if at < step_start => format!("{tag}.*?{step}{gap}{reading}"),
        (Some((tag, _)), Some(step)) => format!("{step}.*?{tag}{gap}{reading}"),
        (Some((tag, _)), None) => format!("{tag}{gap}{reading}"),
        (None, Some(step)) => format!("{step}{gap}{reading}"),
        (None, None) => format!("{boundary}{reading}"),
    };
    if line.trim_start().starts_with(FIRST_RANK) {
        format!(r"^\s*{}.*?{whole}", regex::escape(FIRST_RANK))
    } else {
        whole
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
            ("====> Test set loss: 127.4", "loss", 127.4),
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

    #[test]
    fn a_metric_is_not_read_from_the_line_of_another() {
        let numbers = printed("loss 0.5\nval loss 0.7\n", &BTreeSet::new());
        let pattern = Pattern::new(&numbers[0].pattern).unwrap();
        assert!(pattern.find("loss 0.5").is_some() && pattern.find("val loss 0.7").is_none(), "{}", numbers[0].pattern);
    }
}
