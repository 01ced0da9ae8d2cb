//! Numbers that a program printed, with patterns that read them: `Epoch 3: train loss 0.25` has `train_loss` by `epoch`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::{Captures, Regex};

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
const UNITS: [&str; 5] = ["ms", "s", "us", "ns", "MiB"];
/// Words before numbers that are the steps of lines.
const STEPS: [&str; 5] = ["step", "global_step", "iteration", "iter", "epoch"];

/// A name of up to three words, a separator, and a number that is not part of a fraction or a version.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?<words>[A-Za-z][A-Za-z0-9_@/]*(?:[ \t]+[A-Za-z][A-Za-z0-9_@]*){0,2})[ \t]*[:=]?[ \t]*(?<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?%?)\.?(?:[\s,;|\])}]|$)",
    )
});
/// The step of a line.
static STEP: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:^|[^A-Za-z0-9_])(?<word>step|global_step|iteration|iter|epoch)(?<gap>[ \t]*[:=#]?[ \t]*)(?<number>\d+)(?:[^.\d]|$)",
    )
});

/// The numbers in an output whose names say which direction is better, in the order of their first lines. Without any, all
/// numbers with a name and a separator, such as `time: 1.5 ms`, except those with the names in `params`.
pub fn printed(output: &str, params: &BTreeSet<&str>) -> Vec<Printed> {
    let lines: Vec<&str> = output.lines().rev().take(MAX_LINES).filter(|line| line.len() <= MAX_LENGTH).collect();
    let numbers = collect(&lines, &|_, number| named(number));
    if numbers.is_empty() { collect(&lines, &|line, number| separated(line, number, params)) } else { numbers }
}

/// The name of a number, and the words that it is made of.
type Named<'t> = Option<(String, Vec<&'t str>)>;

/// The numbers that `name` names, in the order of their first lines. `lines` begins with the last one.
fn collect<'t>(lines: &[&'t str], name: &dyn Fn(&'t str, &Captures<'t>) -> Named<'t>) -> Vec<Printed> {
    let mut numbers: Vec<Printed> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines.iter().rev().copied() {
        let mut start = 0;
        while let Some(number) = NUMBER.captures_at(line, start) {
            start = number.name("number").map_or(line.len(), |number| number.end());
            let Some((name, words)) = name(line, &number) else { continue };
            let pattern = pattern(line, number.name("words").map_or(0, |words| words.end()), words, &name);
            let entry = Printed { name: name.clone(), pattern, line: line.trim().to_owned() };
            match places.get(&name) {
                // Lines of another form would need another pattern.
                Some(place) if numbers[*place].pattern == entry.pattern => numbers[*place] = entry,
                Some(_) => {}
                None => {
                    places.insert(name, numbers.len());
                    numbers.push(entry);
                }
            }
        }
    }
    numbers
}

/// Returns the last words before a number that together name a metric.
fn named<'t>(number: &Captures<'t>) -> Named<'t> {
    let words: Vec<&str> = number.name("words")?.as_str().split_whitespace().collect();
    (0..words.len()).map(|first| words[first..].to_vec()).find_map(|words| {
        let name = words.join("_").replace(['@', '/'], "_").to_ascii_lowercase();
        Better::of_name(&name).map(|_| (name, words))
    })
}

/// The words before a number and its separator. A unit behind the number ends the name: `time: 1.5 ms` is `time_ms`.
fn separated<'t>(line: &'t str, number: &Captures<'t>, params: &BTreeSet<&str>) -> Named<'t> {
    let (words, value) = (number.name("words")?, number.name("number")?);
    if !line[words.end()..value.start()].contains([':', '=']) {
        return None;
    }
    let words: Vec<&str> = words.as_str().split_whitespace().collect();
    let mut name = words.join("_").replace(['@', '/'], "_").to_ascii_lowercase();
    let unit = line[value.end()..].split_whitespace().next().map(|unit| unit.trim_end_matches([',', ';', '.']));
    if let Some(unit) = unit.filter(|unit| UNITS.contains(unit)) {
        name = format!("{name}_{}", unit.to_ascii_lowercase());
    }
    let is_other = params.contains(name.as_str()) || STEPS.contains(&name.as_str()) || name.contains("seed");
    (!is_other).then_some((name, words))
}

/// A pattern for a number in a line: its words, which end at `end`, after the step if the line has one before them.
fn pattern(line: &str, end: usize, words: Vec<&str>, name: &str) -> String {
    let words: Vec<String> = words.into_iter().map(regex::escape).collect();
    let number = format!(r"{}\s*[:=]?\s*{{{name}}}", words.join(r"\s+"));
    // A word before the first one would make it another metric.
    match STEP.captures(line).filter(|step| step.get(0).is_some_and(|step| step.end() <= end)) {
        Some(step) => {
            let word = &step["word"];
            format!(r"{word}\s*[:=#]?\s*{{{}}}(?:.*?[^A-Za-z_\s])?\s*{number}", word.to_ascii_lowercase())
        }
        None => format!(r"(?:^|[^A-Za-z_\s])\s*{number}"),
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::tasks::Pattern;

    use super::*;

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
        assert_eq!(names("Test set: Average loss: 0.0274, Accuracy: 9905/10000 (99%)"), ["average_loss"]);
        assert_eq!(names("Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.299824"), ["loss"]);
        assert_eq!(names("saved to model-0.5, version 1.2.3, lr 0.1, took 3 s"), Vec::<String>::new());
    }

    #[test]
    fn numbers_without_a_direction_are_taken_where_there_are_no_others() {
        assert_eq!(names("n=2 sum 12.5\ntime: 12.3 ms\nlr: 0.1\nepoch: 3\nseed = 1\n"), ["n", "time_ms"]);
        assert_eq!(names("Throughput = 120.5 img/s, total time: 3.5 s."), ["throughput", "total_time_s"]);
        assert_eq!(names("time: 12.3 ms\nloss: 0.5"), ["loss"]);
        let numbers = printed("time: 12.3 ms", &BTreeSet::new());
        let pattern = Pattern::new(&numbers[0].pattern).unwrap();
        assert!(pattern.find("time: 11.0 ms").is_some() && pattern.find("wall time: 11.0 ms").is_none());
    }

    #[test]
    fn a_metric_is_not_read_from_the_line_of_another() {
        let numbers = printed("loss 0.5\nval loss 0.7\n", &BTreeSet::new());
        let pattern = Pattern::new(&numbers[0].pattern).unwrap();
        assert!(pattern.find("loss 0.5").is_some() && pattern.find("val loss 0.7").is_none(), "{}", numbers[0].pattern);
    }
}
