//! The names of numbers: the words before them, and the split of the data that they are about.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::{Captures, Regex};

use super::{
    STEPS,
    patterns::{is_ratio, unit_of},
    regex,
};
use crate::stats::Better;

/// The words for splits of the data.
pub(super) const SPLITS: &str = "train(?:ing)?|val(?:i|id(?:ation|ate)?)?|test(?:ing)?|eval(?:uation|uate)?|dev";

/// A name of up to three words, a remark in parentheses, a separator, and a number or a ratio that is not part of a version.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?<words>(?:(?:[Aa]dj|[Aa]vg|[Mm]ax|[Mm]in|[Vv]al)\.[ \t]+)?(?:\p{L}[\p{L}\p{N}_/^-]*@\d*\.\d+(?::\d*\.\d+)?|\p{L}[\p{L}\p{N}_@/^-]*)(?:[ \t]+\p{L}[\p{L}\p{N}_@^]*(?:-\p{L}[\p{L}\p{N}_]*)*){0,2})",
        r"(?<remark>[ \t]*[(\[](?:%|(?:\d+%?[ ])?\p{L}[\p{L}\p{N}_ -]*)[)\]]|[ \t]*%)?",
        r"(?:['\x22](?:[ \t]*,)?|\.)?[ \t]*(?:[-=]>|[→⇒–—]|[:=：]|\.{2,}|[|│┃](?:[ \t]*[↑↓][ \t]*[|│┃])?)?[ \t]*",
        r"(?:[~≈<>≤≥$€£]=?[ ]?|\*\*)?(?:\b[A-Za-z_][A-Za-z0-9_.]*\()?['\x22\[]?",
        r"(?<number>(?<absent>N/?A|None|null|NULL)|[-+]?1\.#[A-Z]+0*|(?<part>\d+)(?:[ ]?/[ ]?|[ ]+(?:out[ ]+)?of[ ]+)(?<whole>\d+)|[-+\x{2212}]?(?:\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?%?|[-+]?(?i:nan|inf))",
        r"(?:[mun]?s|(?:[KMG]i|[kMG])B|secs?|mins?|h)?\.?(?:[\s,;|│┃/\])}±'\x22*，；。、）]|:\s|$)",
    ))
});
/// The metric of a line such as `Accuracy of the network on the 10000 test images: 54 %`.
static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\W*(?:(?i:the|our|final|overall)[ \t]+)*(?<subject>[A-Za-z][A-Za-z0-9_@-]*(?:[ \t]+[A-Za-z][A-Za-z0-9_@-]*){0,2}?)[ \t]+(?:of|on|for|at|after|before|with|without)[ \t]",
    )
});
/// The beginning of a part of a line about a split of the data, such as `Val: loss 0.5` or `[train] loss 0.5`.
static SPLIT: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r"(?i)(?:^|[^A-Za-z_./-])(?<tag>{SPLITS})\.?(?:[ \t]*[:|>\]]|[ \t]+[-–][ \t])")));
/// The name of a split of the data before a word, or in parentheses: `train loss`, `(val)`.
pub(super) static SPLIT_WORD: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r#"(?i)(?:^|[^A-Za-z_])(?<tag>{SPLITS})(?:[ \t),;:\]'"]|$)"#)));
/// The name of a split of the data in the name of a number: `val_loss`.
static OWN_SPLIT: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r"(?i)(?:^|[^A-Za-z])(?<tag>{SPLITS})(?:[^A-Za-z]|$)")));
/// A word in brackets at the beginning of a line.
static BRACKETED: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*\[(?<tag>[A-Za-z][A-Za-z0-9_-]*)\]"));
/// A word at the beginning of a line of cells with tabs.
static FIRST_CELL: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)^\s*(?<tag>final|best)\t"));
/// A word with a colon at the beginning of a line, before another word.
static LABEL: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(?<tag>[A-Za-z][A-Za-z0-9_-]*)[ \t]*:[ \t]+[A-Za-z]"));
/// Words in brackets that do not describe numbers.
const LEVELS: [&str; 13] = [
    "critical", "debug", "default", "error", "gpu", "info", "main", "proc", "process", "rank", "trace", "warn",
    "warning",
];

/// Further numbers behind a number, to the end of the line or in a list of them.
static MORE_NUMBERS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:[,;]?[ \t]+[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)+[ \t]*$"));
/// The words of a line before the last three before a number: `Mean of` in `Mean of squared residuals: 0.3`.
static FIRST_WORDS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[^A-Za-z]*(?<words>(?:[A-Za-z][A-Za-z0-9_-]*[ \t]+){1,4})$"));
/// Three digits behind a space, which may be the thousands of a number.
static GROUP: LazyLock<Regex> = LazyLock::new(|| regex(r"^[ \x{a0}\x{202f}]\d{3}(?:[^\d.]|$)"));
/// Words in place of numbers.
const WORDS_FOR_NUMBERS: [&str; 11] =
    ["nan", "NaN", "inf", "Inf", "NA", "N/A", "None", "null", "NULL", "infinity", "Infinity"];
/// The same as a part of a pattern.
pub(super) const WORD_FOR_NUMBER: &str = r"\b(?:[Nn]a[Nn]|[Ii]nf(?:inity)?|N/?A|None|null|NULL|[QS]NAN|IND|INF)";

/// Maximum number of words of a number's name in [`NUMBER`].
pub(super) const MAX_WORDS: usize = 3;
/// Words between the name of a number and the number.
const VERBS: [&str; 5] = ["is", "was", "equals", "of", "reached"];

/// The metric before the splits of a line such as `RMSE train 1.5, test 0.8`, up to the words of a number.
static BEFORE_SPLITS: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r"(?i)(?:^|[^\p{{L}}\p{{N}}_])(?<metric>\p{{L}}[\p{{L}}\p{{N}}_@-]*(?:[ \t]+\p{{L}}[\p{{L}}\p{{N}}_@-]*){{0,2}}?)[ \t]*[:=]?[ \t]*[\[({{]?[ \t]*(?:(?:{SPLITS})[ \t]*[:=]?[ \t]*[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?%?[ \t]*[,;|/]?[ \t]*)*$"
    ))
});
/// Splits of the data with a slash between them, before as many numbers: `loss train/test: 1.5/0.8`.
static SLASHED: LazyLock<Regex> = LazyLock::new(|| regex(&format!(r"(?i)(?:^|[^a-z])(?:{SPLITS})/(?:{SPLITS})$")));
/// A separator with a number behind it: the number before it is a part of the name, as in `Loss 2: 0.75`.
static VALUE_BEHIND: LazyLock<Regex> = LazyLock::new(|| regex(r"^[ \t]*[:=][ \t]*[-+]?\.?\d"));

/// The name of a number, and the words before it.
pub(super) type Named<'t> = Option<(String, Vec<&'t str>)>;

/// The subject of the numbers in a part of a line: its name, and the words of the line that name it, with their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) words: Vec<(usize, String)>,
}

/// The next number of a line from `start` on. Neither the unit of the number before, as in `900M loss 1.5`, nor a value of its own, as in
/// `saved=True loss 1.5`, begins its name.
pub(super) fn next_number(line: &str, mut start: usize) -> Option<Captures<'_>> {
    loop {
        let found = NUMBER.captures_at(line, start)?;
        let words = found.name("words")?;
        let first = words.as_str().split([' ', '\t']).next().unwrap_or_default();
        let before = line[..words.start()].chars().next_back();
        let is_unit = before.is_some_and(|char| char.is_ascii_digit());
        let is_value = before == Some('=') && ["False", "None", "True", "false", "true"].contains(&first);
        if !(is_unit || is_value) {
            return Some(found);
        }
        start = words.start() + first.len();
    }
}

/// Returns the last words before a number that together name a metric, and all of the words.
pub(super) fn named<'t>(line: &'t str, number: &Captures<'t>) -> Named<'t> {
    let mut words: Vec<&str> = number.name("words")?.as_str().split_whitespace().collect();
    if number.name("absent").is_some()
        || unit_of(line, number).is_some()
        || is_in_list(line, number)
        || is_in_word(line, number)
        || is_progress(line, number)
    {
        return None;
    }
    if let Some((name, _)) = of_split(line, number) {
        return Some((name, words));
    }
    // `The test accuracy is 0.7`.
    let has_verb = words.len() > 1 && words.pop_if(|word| VERBS.contains(word)).is_some();
    let is_known = |words: &&[&str]| Better::of_name(&words.join("_")).is_some();
    let has_separator = || {
        let end = number.name("remark").or(number.name("words")).map_or(0, |words| words.end());
        has_verb || line[end..].trim_start().starts_with([':', '='])
    };
    let known = |words: &[&'t str]| {
        let first = (0..words.len()).find(|first| is_known(&&words[*first..]))?;
        // `Test set loss` is not the loss of another split.
        let is_split = |word: &&str| own_split(word).is_some_and(|(tag, _)| tag.len() == word.len());
        let split = words[..first].iter().position(is_split);
        Some(words[split.unwrap_or(first)..].to_vec())
    };
    // `score on train`
    let on_split = || {
        let (_, rest) =
            words.split_last().filter(|(last, _)| own_split(last).is_some_and(|(tag, _)| tag.len() == last.len()))?;
        let (_, metric) = rest.split_last().filter(|(word, _)| ["for", "on"].contains(*word))?;
        let first = (0..metric.len()).find(|first| is_known(&&metric[*first..]))?;
        Some(words[first..].to_vec())
    };
    let with_known_end = || words.last().filter(|last| Better::of_last_word(last).is_some()).map(|last| vec![*last]);
    let subject = || {
        let found = SUBJECT.captures(line).filter(|_| has_separator())?;
        known(&found.name("subject")?.as_str().split_whitespace().collect::<Vec<_>>())
    };
    // `Val: 0.61` of a program that has one measure.
    let split = || {
        let is_fraction = number["number"].contains(['.', '%']);
        let last = words.last().filter(|_| is_fraction && has_separator())?;
        let is_split = own_split(last).is_some_and(|(tag, _)| tag.len() == last.len());
        let is_result = |word: &&str| ["best", "final"].contains(&word.to_ascii_lowercase().as_str());
        // `Best: 0.61 using {'C': 1}`
        let before = number.name("words").map_or("", |words| &line[..words.start()]);
        let is_best = words.len() == 1 && is_result(last) && !before.contains(char::is_alphabetic);
        (is_best || is_split && words[..words.len() - 1].iter().all(is_result)).then(|| words.clone())
    };
    let name = known(&words).or_else(on_split).or_else(with_known_end).or_else(split).or_else(subject)?;
    // `Root mean squared error` has more words than a number's own.
    let start = number.name("words").map_or(0, |words| words.start());
    let first = FIRST_WORDS.captures(&line[..start]).and_then(|first| first.name("words"));
    let longer = first.map(|first| first.as_str().split_whitespace().chain(name.iter().copied()).collect::<Vec<_>>());
    let longer = longer.filter(|longer| name.len() == MAX_WORDS && is_known(&longer.as_slice()));
    Some((joined(longer.as_ref().unwrap_or(&name)), words))
}

/// True for a number in a list of several: none of them is the result.
fn is_in_list(line: &str, number: &Captures<'_>) -> bool {
    let Some(number) = number.name("number") else { return false };
    // NumPy has no comma between them, and `cat` of R no brackets around them.
    line[..number.start()].trim_end().ends_with('[') && !line[number.end()..].trim_start().starts_with(']')
        || MORE_NUMBERS.is_match(&line[number.end()..])
        // `5 000`
        || number.len() < 4
            && number.as_str().bytes().all(|byte| byte.is_ascii_digit())
            && GROUP.is_match(&line[number.end()..])
}

/// True for a number that is the end of a name, as in `Acc@1: 15.0pts` and `acc1`, for the first of several numbers of
/// `train/test: 1.5/0.8`, and for the 2 of `Loss 2: 0.75`.
fn is_in_word(line: &str, number: &Captures<'_>) -> bool {
    let (Some(words), Some(number)) = (number.name("words"), number.name("number")) else { return false };
    let rest = &line[number.end()..];
    let last = words.as_str().chars().next_back().filter(|_| words.end() == number.start());
    let is_tied = last.is_some_and(|last| match last {
        '@' | '^' => true,
        // `loss-0.5`
        '/' | '-' => rest.trim_start().starts_with([':', '=']),
        // Other scripts have no spaces between words and numbers.
        last => last == '_' || last.is_ascii_alphanumeric(),
    });
    let is_index = number.as_str().bytes().all(|byte| byte.is_ascii_digit());
    is_tied || is_slashed(words.as_str()) || is_index && VALUE_BEHIND.is_match(rest)
}

/// True for words that end with several splits of the data.
pub(super) fn is_slashed(words: &str) -> bool {
    SLASHED.is_match(words)
}

/// The name of a number whose own word is a split of the data, with the metric that is before it in the line, and the words of that metric.
pub(super) fn of_split(line: &str, number: &Captures<'_>) -> Option<(String, Tag)> {
    let words = number.name("words")?;
    let (split, _) = own_split(words.as_str()).filter(|(split, _)| split.len() == words.len())?;
    let metric = BEFORE_SPLITS.captures(&line[..words.start()])?.name("metric")?;
    let mut at = metric.start();
    let mut metric_words = Vec::new();
    for word in metric.as_str().split_whitespace() {
        at = line[at..].find(word).map_or(at, |offset| at + offset);
        metric_words.push((at, word.to_owned()));
        at += word.len();
    }
    let name = joined(&metric_words.iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>());
    let is_metric = Better::of_name(&name).is_some() && own_split(&name).is_none();
    is_metric.then(|| (format!("{name}_{}", joined(&[split])), Tag { name: String::new(), words: metric_words }))
}

/// The end of the first word of several before a number that stands for a number, such as `nan` in `loss nan acc 0.9`.
pub(super) fn end_of_word_for_number(number: &Captures<'_>) -> Option<usize> {
    let words = number.name("words")?;
    let mut ends = words.as_str().split_whitespace().skip(1).filter(|word| WORDS_FOR_NUMBERS.contains(word));
    let word = ends.next()?;
    let offset = word.as_ptr() as usize - words.as_str().as_ptr() as usize;
    Some(words.start() + offset + word.len())
}

/// True for a line with a word in place of a number that is not its last word.
pub(super) fn has_word_for_number(line: &str) -> bool {
    let mut words =
        line.split(|char: char| char.is_whitespace() || ",;:=|".contains(char)).filter(|word| !word.is_empty());
    // `1.#QNAN`
    let stands_for_number =
        |word: &str| WORDS_FOR_NUMBERS.contains(&word.trim_start_matches('-')) || word.contains(".#");
    words.any(stands_for_number) && words.next().is_some()
}

/// True for the number of a progress bar: `Validation: 100%|█████|`.
fn is_progress(line: &str, number: &Captures<'_>) -> bool {
    number.name("number").is_some_and(|number| number.as_str().ends_with('%') && line[number.end()..].starts_with('|'))
}

/// The words before a number and its separator. A unit behind the number ends the name: `time: 1.5 ms` is `time_ms`.
pub(super) fn separated<'t>(line: &'t str, number: &Captures<'t>, params: &BTreeSet<&str>) -> Named<'t> {
    let (words, value) = (number.name("words")?, number.name("number")?);
    let has_separator =
        line[words.end()..value.start()].contains([':', '=', '>', '→', '⇒', '–', '—', '：', '|', '│', '┃', ',']);
    if number.name("absent").is_some()
        || is_ratio(number)
        || !has_separator
        || is_in_list(line, number)
        || is_in_word(line, number)
        || is_progress(line, number)
    {
        return None;
    }
    let before = FIRST_WORDS.captures(&line[..words.start()]).and_then(|before| before.name("words"));
    let before = before.map_or("", |before| before.as_str());
    let words: Vec<&str> = words.as_str().split_whitespace().collect();
    let mut name = joined(&before.split_whitespace().chain(words.iter().copied()).collect::<Vec<_>>());
    if let Some((unit, _)) = unit_of(line, number) {
        name = format!("{name}_{}", name_of_unit(unit));
    }
    (!is_setting(&name, params)).then_some((name, words))
}

/// True for the name of an axis, of a step or of a seed.
pub(super) fn is_setting(name: &str, params: &BTreeSet<&str>) -> bool {
    params.contains(name) || STEPS.contains(&name) || name.contains("seed")
}

/// The end of a name for a unit: `min` could be a minimum.
pub(super) fn name_of_unit(unit: &str) -> String {
    match unit {
        "min" | "mins" | "minutes" => "minutes".to_owned(),
        "h" | "hours" => "hours".to_owned(),
        unit => unit.to_ascii_lowercase(),
    }
}

/// The name of a metric, composed of words. `tok/s` is a rate, and the capital letter of `D_B` is no unit.
pub(super) fn joined(words: &[&str]) -> String {
    // `mAP@0.5:0.95`
    let with_threshold = |word: &&str| match word.split_once('@') {
        Some((name, threshold)) => {
            let parts: Vec<&str> = threshold.split(['.', ':']).filter(|part| !part.is_empty()).collect();
            format!("{name}_{}", parts.join("_"))
        }
        None => (*word).to_owned(),
    };
    let words: Vec<String> = words.iter().map(with_threshold).collect();
    let name = words.join("_").replace("._", "_").replace('^', "");
    let name = name
        .strip_suffix("/s")
        .or_else(|| name.strip_suffix("/sec"))
        .map_or(name.clone(), |base| format!("{base}_per_s"));
    let name = name.replace(['@', '/', '-'], "_");
    match name.rsplit_once('_') {
        Some((start, last @ ("B" | "S"))) => format!("{}_{last}", start.to_lowercase()),
        _ => name.to_lowercase(),
    }
}

/// The split of the data in the words of a number, and its place in them.
pub(super) fn own_split(words: &str) -> Option<(&str, usize)> {
    OWN_SPLIT.captures(words)?.name("tag").map(|tag| (tag.as_str(), tag.start()))
}

/// The subject of a number, according to the line before its own words. `own_splits` are the splits in the words of the line's numbers.
pub(super) fn tag_of(line: &str, number: &Captures<'_>, own_splits: &[(String, usize)]) -> Option<Tag> {
    let end = number.name("words")?.start();
    let of = |found: Captures<'_>| {
        let is_before = found.get(0).is_some_and(|found| found.end() <= end);
        found.name("tag").filter(|_| is_before).map(|tag| (tag.as_str().to_owned(), tag.start()))
    };
    let mut splits: Vec<(String, usize)> = SPLIT.captures_iter(line).filter_map(of).collect();
    // `train loss: 9 acc: 0.9 | val loss: 8 acc: 0.8`: the second number of each part is about its split, too.
    let names: BTreeSet<String> = own_splits.iter().map(|(tag, _)| tag.to_ascii_lowercase()).collect();
    if names.len() > 1 || !splits.is_empty() {
        splits.extend(own_splits.iter().filter(|(_, at)| *at < end).cloned());
    }
    let is_level = |tag: &str| {
        let tag = tag.to_ascii_lowercase();
        LEVELS.contains(&tag.trim_end_matches(|char: char| char.is_ascii_digit()))
    };
    let nearest = splits.into_iter().max_by_key(|(_, at)| *at);
    let bracketed = || BRACKETED.captures(line).and_then(of).filter(|(tag, _)| !is_level(tag));
    let found = nearest.or_else(bracketed).or_else(|| FIRST_CELL.captures(line).and_then(of));
    found.map(|(tag, at)| Tag { name: joined(&[&tag]), words: vec![(at, tag)] })
}

/// The words that may tell the numbers of a line from numbers with the same name in other lines: splits of the data between `tag`
/// and the number, unless the number's own words have one, and the label at the beginning of the line. Each has its place.
pub(super) fn signature(
    line: &str,
    number: &Captures<'_>,
    tag: Option<&Tag>,
    base: &str,
) -> BTreeMap<String, (usize, String)> {
    let begin = tag.and_then(|tag| tag.words.last()).map_or(0, |(at, word)| at + word.len());
    let (own, text) = number.name("words").map_or((0..0, ""), |words| (words.range(), words.as_str()));
    // The words of a number that the subject of its line names are about the data.
    let is_named_before = !joined(&text.split_whitespace().collect::<Vec<_>>()).ends_with(base);
    let end = if is_named_before { own.end } else { own.start };
    let mut words = BTreeMap::new();
    if own_split(base).is_none() {
        for found in SPLIT_WORD.captures_iter(&line[..end]) {
            if let Some(word) = found.name("tag").filter(|word| word.start() >= begin) {
                words.insert(joined(&[word.as_str()]), (word.start(), word.as_str().to_owned()));
            }
        }
    }
    let label = LABEL.captures(line).filter(|_| tag.is_none()).and_then(|label| {
        let label = label.name("tag").filter(|label| label.end() < end)?;
        Some((label.start(), label.as_str().to_owned()))
    });
    // `accuracy (Linear kernel)`
    if let Some(remark) = number.name("remark").filter(|_| tag.is_none()) {
        let text = remark.as_str().trim().trim_matches(['(', ')', '[', ']', '%']);
        if !text.is_empty() && SPLIT_WORD.captures(remark.as_str()).is_none() {
            let name = joined(&text.split_whitespace().collect::<Vec<_>>());
            words.insert(name, (remark.start(), text.to_owned()));
        }
    }
    if let Some((at, label)) = label.filter(|(_, label)| !LEVELS.contains(&label.to_ascii_lowercase().as_str())) {
        words.insert(joined(&[&label]), (at, label));
    }
    words
}
