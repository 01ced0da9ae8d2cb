//! Numbers that the jobs of a study have printed, and the logs that they have written.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::LazyLock,
};

use regex::Regex;

use super::measured::{Kind, Measured};
use crate::{
    batches::log_of,
    error::Error,
    format::{clean, say, shortened},
    init::{self as recipes, Missed, Printed, Wish, regex},
    plan::Job,
    store::Store,
    worker,
};

/// Maximum number of printed numbers that a study reads; its table has fewer.
const MAX_PATTERNS: usize = 24;
/// Maximum number of printed numbers that are compared between the jobs.
const MAX_SEARCHED: usize = 60;
/// Maximum number of logs, and of numbers that are not read, that a message names.
pub(in crate::cli) const MAX_NAMED: usize = 4;
/// Maximum number of jobs whose outputs are searched for numbers that are not read.
pub(in crate::cli) const MAX_JOBS: usize = 20;
/// Longest part of a line that is quoted, in characters.
pub(in crate::cli) const QUOTED: usize = 80;
/// Part of a value by which a printed one may differ from the reported one, which has more digits.
const ROUNDING: f64 = 0.01;

/// The numbers that the jobs have printed, else the logs that they have written. If the jobs have reported other metrics than constants and
/// settings, only numbers whose names imply a better direction count: settings that a program prints, such as `batch_size = 64`, are not
/// results.
pub(super) fn of(
    wish: &Wish,
    (jobs, words): (&[&Job], &[BTreeSet<String>]),
    store: &Store,
    metrics: &Measured,
    curves: &BTreeMap<String, usize>,
) -> Result<(Vec<Printed>, Logs), Error> {
    let outputs = outputs(jobs, store)?;
    let opened_outputs = opened(&outputs, words);
    let texts = || opened_outputs.iter().map(String::as_str);
    let known = known(metrics, curves);
    let has_others = !curves.is_empty() || metrics.names().any(|name| metrics.kind(name) == Kind::Result);
    let mut found = recipes::printed_results(texts());
    if found.read.is_empty() && !has_others {
        let params = wish.axes.iter().map(|(name, _)| name.as_str()).collect();
        let results = found.missed;
        found = recipes::printed_numbers(texts(), &params);
        found.missed.retain(|missed| results.iter().all(|result| result.name != missed.name));
        found.missed.splice(0..0, results);
    }
    let mut numbers = found.read;
    numbers.retain(|number| !known.contains(&plain(&number.name)));
    found.missed.retain(|missed| !known.contains(&plain(&missed.name)));
    let unsearched = numbers.split_off(MAX_SEARCHED.min(numbers.len()));
    let mut values = metrics.others();
    for (number, job, value) in values_of(&numbers, &outputs) {
        values.add(&number.name, job, value);
    }
    let names = numbers.iter().map(|number| number.name.as_str());
    let chosen = values.chosen(names, MAX_PATTERNS, || differ(&outputs));
    let (numbers, left): (Vec<_>, Vec<_>) = numbers.into_iter().partition(|number| chosen.contains(&number.name));
    for number in &numbers {
        say(format_args!("metric `{}`, from lines such as: {}", clean(&number.name), clean(&number.line)));
    }
    let left = left.into_iter().filter(|number| values.kind(&number.name) == Kind::Result);
    say_others(&left.chain(unsearched).collect::<Vec<_>>());
    say_missed(&found.missed);
    if numbers.is_empty() {
        let logs = written(jobs, store)?;
        say_logs(&logs, jobs, store)?;
        return Ok((Vec::new(), logs));
    }
    say_unread(wish, jobs, store)?;
    Ok((numbers, Logs::new()))
}

/// Names the results that jobs have printed and neither reported nor read with a pattern. Returns them instead if the metrics of the
/// study are printed numbers.
pub(super) fn unread(
    wish: &Wish,
    (jobs, words): (&[&Job], &[BTreeSet<String>]),
    store: &Store,
    metrics: &Measured,
    curves: &BTreeMap<String, usize>,
) -> Result<Vec<Printed>, Error> {
    let outputs = outputs(&jobs[..jobs.len().min(MAX_JOBS)], store)?;
    let mut known = known(metrics, curves);
    known.extend(wish.printed.iter().map(|number| plain(&number.name).into_owned().into()));
    let mut found = recipes::printed_results(opened(&outputs, words).iter().map(String::as_str));
    found.read.retain(|number| !known.contains(&plain(&number.name)));
    let mut values: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for (number, job, value) in values_of(&found.read, &outputs) {
        values.entry(&number.name).or_default().push((job, value));
    }
    let is_new =
        |number: &&Printed| values.get(number.name.as_str()).is_some_and(|values| !metrics.has(values, ROUNDING));
    let mut new: Vec<Printed> = found.read.iter().filter(is_new).cloned().collect();
    if wish.printed.is_empty() {
        say_others(&new);
        found.missed.retain(|missed| !known.contains(&plain(&missed.name)));
        say_missed(&found.missed);
        return Ok(Vec::new());
    }
    let rest = new.split_off(MAX_PATTERNS.saturating_sub(wish.printed.len()).min(new.len()));
    say_others(&rest);
    Ok(new)
}

/// The names of the metrics and curves that the jobs have reported.
fn known<'m>(metrics: &'m Measured, curves: &'m BTreeMap<String, usize>) -> BTreeSet<Cow<'m, str>> {
    metrics.names().chain(curves.keys().map(String::as_str)).map(plain).collect()
}

/// A name as the words of a line make it: `val/loss` is `val_loss`.
fn plain(name: &str) -> Cow<'_, str> {
    let is_other = |char: char| char.is_ascii_uppercase() || "@/-.".contains(char);
    if name.contains(is_other) {
        name.replace(['@', '/', '-', '.'], "_").to_ascii_lowercase().into()
    } else {
        name.into()
    }
}

/// The last values of numbers in the outputs, each with the index of its job.
fn values_of<'n>(
    numbers: &'n [Printed],
    outputs: &[(usize, String)],
) -> impl Iterator<Item = (&'n Printed, usize, f64)> {
    numbers.iter().flat_map(move |number| {
        let value = move |(job, text): &(usize, String)| Some((number, *job, recipes::last_value(number, text)?));
        outputs.iter().filter_map(value)
    })
}

/// Names printed numbers that are not in the table.
fn say_others(numbers: &[Printed]) {
    if numbers.is_empty() {
        return;
    }
    let line = |number: &Printed| format!("`{}` ({})", clean(&number.name), shortened(&clean(&number.line), QUOTED));
    let named: Vec<String> = numbers.iter().take(MAX_NAMED).map(line).collect();
    let more = numbers.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    say(format_args!(
        "also printed, and not read: {}{more}; `reads` in a recipe takes a pattern for each",
        named.join(", ")
    ));
}

/// Prints the numbers that no pattern reads, or that a pattern reads together with other numbers.
fn say_missed(all: &[Missed]) {
    for missed in all.iter().take(MAX_NAMED) {
        let line = shortened(&clean(&missed.line), QUOTED);
        say(format_args!("the printed `{}` {}: {line}", clean(&missed.name), clean(&missed.why.to_string())));
    }
    if let Some(more) = all.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        let names: Vec<_> =
            all[MAX_NAMED..].iter().take(MAX_NAMED).map(|missed| format!("`{}`", clean(&missed.name))).collect();
        say(format_args!("{more} more printed numbers are not read, such as {}", names.join(", ")));
    }
}

/// Logs of a program: kinds of `reads`, each with its paths.
pub(super) type Logs = BTreeMap<&'static str, BTreeSet<String>>;

/// The outputs of the jobs with a record, each with the index of its job.
pub(in crate::cli) fn outputs(jobs: &[&Job], store: &Store) -> Result<Vec<(usize, String)>, Error> {
    let mut outputs = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let Some(record) = store.get(job.key)? else { continue };
        // Unreadable output has no numbers.
        let output = log_of(store, &record).and_then(|log| fs_err::read(log).ok()).unwrap_or_default();
        outputs.push((index, recipes::searched(&worker::without_codes(&output)).join("\n")));
    }
    Ok(outputs)
}

/// The outputs with marks in place of the values of axes, which are `words` of each job.
fn opened(outputs: &[(usize, String)], words: &[BTreeSet<String>]) -> Vec<String> {
    let open = |(job, text): &(usize, String)| match words.get(*job) {
        Some(words) => recipes::with_open_words(text, words),
        None => text.clone(),
    };
    outputs.iter().map(open).collect()
}

/// True if two jobs have different outputs.
pub(super) fn differ(outputs: &[(usize, String)]) -> bool {
    outputs.windows(2).any(|pair| pair[0].1 != pair[1].1)
}

/// The logs that the jobs have written, as `reads` has them: kind and path.
fn others(jobs: &[&Job], store: &Store) -> Result<Vec<String>, Error> {
    let logs = of_jobs(jobs, store)?;
    let each =
        logs.iter().flat_map(|(kind, paths)| paths.iter().map(move |path| format!("`{}` ({kind})", clean(path))));
    Ok(each.take(MAX_NAMED).collect())
}

/// Names the logs that the jobs have written, if no metric comes from them.
pub(super) fn say_unread(wish: &Wish, jobs: &[&Job], store: &Store) -> Result<(), Error> {
    let others = if wish.logs.is_empty() { others(&jobs[..jobs.len().min(MAX_JOBS)], store)? } else { Vec::new() };
    if !others.is_empty() {
        say(format_args!(
            "the program also wrote {}: `reads` in a recipe takes metrics from such files",
            others.join(", ")
        ));
    }
    Ok(())
}

/// The logs that the jobs have written. Paths that differ from job to job, because they have the time or a parameter in them, are one
/// pattern.
fn of_jobs(jobs: &[&Job], store: &Store) -> Result<Logs, Error> {
    let mut all: BTreeMap<(&'static str, usize, String), Vec<BTreeSet<String>>> = BTreeMap::new();
    let mut count = 0;
    for job in jobs {
        let Some(record) = store.get(job.key)? else { continue };
        count += 1;
        let mut own: BTreeMap<(&'static str, usize, String), BTreeSet<String>> = BTreeMap::new();
        for (kind, paths) in worker::logs(&store.files(record.key)) {
            for path in paths {
                let extension =
                    Path::new(&path).extension().map_or_else(String::new, |end| end.to_string_lossy().into());
                own.entry((kind, path.split('/').count(), extension)).or_default().insert(without_time(&path));
            }
        }
        for (group, paths) in own {
            all.entry(group).or_default().push(without_counters(paths));
        }
    }
    let mut logs = Logs::new();
    for ((kind, ..), paths) in all {
        let each: BTreeSet<&String> = paths.iter().flatten().collect();
        let is_one_each = paths.len() == count && paths.iter().all(|own| own.len() == 1);
        let merged = (each.len() > 1 && is_one_each).then(|| merged(&each));
        let paths = merged.map_or_else(|| each.into_iter().cloned().collect(), |merged| vec![merged]);
        logs.entry(kind).or_default().extend(paths);
    }
    Ok(logs)
}

/// A path with `*` for components that name a time, which no other job has: `outputs/2026-11-28/20-44-17/results.json`.
fn without_time(path: &str) -> String {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        regex(concat!(
            r"(?:^|[^0-9])(?:20\d{2}[-_.]?[01]\d[-_.]?[0-3]\d|[0-2]\d[-_.:][0-5]\d[-_.:][0-5]\d)(?:[^0-9]|$)",
            r"|(?:^|[^0-9])20\d{6}[-_T]?\d{4,6}(?:[^0-9]|$)|^(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\d{2}_\d{2}-",
        ))
    });
    path.split('/').map(|part| if TIME.is_match(part) { "*" } else { part }).collect::<Vec<_>>().join("/")
}

/// The only path with `*` for the number of a folder that a program counts up, such as `version_0`.
fn without_counters(paths: BTreeSet<String>) -> BTreeSet<String> {
    static COUNTER: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?i)(?<start>(?:^|/)(?:exp|experiment|run|trial|version)[_-]?)\d+/"));
    if paths.len() > 1 {
        return paths;
    }
    paths.iter().map(|path| COUNTER.replace_all(path, "$start*/").into_owned()).collect()
}

/// The pattern of paths with equal numbers of components: `*` for components that differ, with the common beginning and end of the last.
fn merged(paths: &BTreeSet<&String>) -> String {
    let parts: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
    let last = parts[0].len() - 1;
    let component = |at: usize| {
        let first = parts[0][at];
        let mut others = parts.iter().map(|parts| parts[at]);
        if others.all(|other| other == first) {
            return first.to_owned();
        }
        let others = || parts.iter().map(|parts| parts[at]);
        let common = |equal: &dyn Fn(&str, usize) -> bool| {
            (0..first.len()).take_while(|count| others().all(|other| equal(other, *count))).count()
        };
        let bytes = first.as_bytes();
        let begin = common(&|other, count| other.as_bytes().get(count) == Some(&bytes[count]));
        let end = common(&|other, count| {
            other.len() > count && other.as_bytes()[other.len() - 1 - count] == bytes[bytes.len() - 1 - count]
        });
        let shortest = others().map(str::len).min().unwrap_or_default();
        let end = end.min(shortest.saturating_sub(begin));
        if at == last && first.is_ascii() {
            format!("{}*{}", &first[..begin], &first[first.len() - end..])
        } else {
            "*".to_owned()
        }
    };
    (0..=last).map(component).collect::<Vec<_>>().join("/")
}

/// The logs that the jobs have written and that metrics are taken from.
pub(super) fn written(jobs: &[&Job], store: &Store) -> Result<Logs, Error> {
    let mut logs = of_jobs(jobs, store)?;
    for paths in logs.values_mut() {
        // The logs of several splits of the data have the same columns.
        let left_out = left_out(paths);
        paths.retain(|path| !left_out.contains_key(path));
    }
    Ok(logs)
}

/// The logs of training beside those of held-out data, and those of validation beside those of the test, each with the other one.
fn left_out(paths: &BTreeSet<String>) -> BTreeMap<String, String> {
    const VALIDATION: [&str; 5] = ["validation", "valid", "val", "eval", "dev"];
    let counterpart = |path: &String| {
        let other = |split: &str, other: &str| {
            Some(path.replace(split, other)).filter(|other| other != path && paths.contains(other))
        };
        let of_training = || std::iter::once("test").chain(VALIDATION).find_map(|split| other("train", split));
        VALIDATION.iter().find_map(|split| other(split, "test")).or_else(of_training)
    };
    paths.iter().filter_map(|path| Some((path.clone(), counterpart(path)?))).collect()
}

/// Names the logs from which metrics are taken, and those that are left out.
fn say_logs(logs: &Logs, jobs: &[&Job], store: &Store) -> Result<(), Error> {
    for (path, other) in of_jobs(jobs, store)?.values().flat_map(left_out) {
        say(format_args!(
            "`{}` is left out: its columns would have the names of those of `{}`",
            clean(&path),
            clean(&other)
        ));
    }
    for (kind, paths) in logs {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        say(format_args!(
            "metrics from {}, which the program wrote (`reads: {{ {kind}: … }}`)",
            clean(&paths.join(", "))
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_path_is_open() {
        for (path, expected) in [
            ("outputs/2026-11-28/20-44-17/results.json", "outputs/*/*/results.json"),
            ("runs/Nov28_20-44-57_vm", "runs/*"),
            ("runs/20261128_204457/log.csv", "runs/*/log.csv"),
            ("out/lr0.001/log.csv", "out/lr0.001/log.csv"),
        ] {
            assert_eq!(without_time(path), expected);
        }
    }

    #[test]
    fn of_the_logs_of_several_splits_the_last_counts() {
        let of = |paths: &[&str]| {
            left_out(&paths.iter().map(|path| (*path).to_owned()).collect()).into_iter().collect::<Vec<_>>()
        };
        let pair = |path: &str, other: &str| (path.to_owned(), other.to_owned());
        assert_eq!(of(&["train.csv", "valid.csv"]), [pair("train.csv", "valid.csv")]);
        assert_eq!(of(&["a/test.csv", "a/valid.csv"]), [pair("a/valid.csv", "a/test.csv")]);
        assert_eq!(of(&["eval_results.json", "test_results.json"]), [pair("eval_results.json", "test_results.json")]);
        assert_eq!(of(&["train.csv", "log.csv"]), []);
    }

    #[test]
    fn counters_of_folders_are_patterns() {
        for (paths, expected) in [
            (vec!["lightning_logs/version_0/metrics.csv"], vec!["lightning_logs/version_*/metrics.csv"]),
            (vec!["runs/exp2/a.csv"], vec!["runs/exp*/a.csv"]),
            (vec!["run_1/a.csv", "run_2/a.csv"], vec!["run_1/a.csv", "run_2/a.csv"]),
        ] {
            let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>();
            assert_eq!(without_counters(set(&paths)), set(&expected));
        }
    }

    #[test]
    fn paths_that_differ_are_one_pattern() {
        for (paths, expected) in [
            (["out/lr0.1/m.json", "out/lr3/m.json"], "out/*/m.json"),
            (["m_0.1.csv", "m_3.csv"], "m_*.csv"),
            (["m_1.csv", "m_11.csv"], "m_1*.csv"),
            (["a/x.csv", "b/y.csv"], "*/*.csv"),
        ] {
            let paths = paths.map(str::to_owned);
            assert_eq!(merged(&paths.iter().collect()), expected);
        }
    }
}
