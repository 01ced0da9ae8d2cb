//! Patterns for lines of output: regular expressions in which `{name}` stands for a number, and `{name:ratio}` for `98/100`.

use std::borrow::Cow;

use regex::{Captures, Regex, RegexBuilder};

use super::{
    STEP_NAMES,
    number::{Number, begins_after, ends_before, leading_number},
};

/// The largest compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// A mark before a number, as in `~0.5`, and the call around it, such as `tensor(0.5)` or `np.float64(0.5)`, independent of the flags of the
/// pattern.
const CALL: &str = r"(?-Uix:(?:[~≈<>≤≥$€£]=?[ ]?)?(?:[A-Za-z_][A-Za-z0-9_.]*\(['\x22\[]?)?)";
const NUMBER: &str = concat!(
    r"(?-Uix:[+\-\x{2212}]?(?:1\.\#(?:INF|IND|[QS]NAN)0*|",
    r"(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)(?:[eE][+-]?[0-9]+|[dDfF][+-][0-9]+)?",
    r"|(?i:infinity|inf|nan)(?:\([A-Za-z0-9_]*\))?))",
);
/// A number as above, or a number with commas between its thousands, if the pattern has no comma beside it.
const THOUSANDS: &str = concat!(
    r"(?-Uix:[+\-\x{2212}]?(?:1\.\#(?:INF|IND|[QS]NAN)0*|[1-9][0-9]{0,2}(?:,[0-9]{3})+\.[0-9]+|[1-9][0-9]{0,2}(?:,[0-9]{3}){2,}|",
    r"(?:[0-9]+(?:_[0-9]+)*(?:\.(?:[0-9]+(?:_[0-9]+)*)?)?|\.[0-9]+(?:_[0-9]+)*)(?:[eE][+-]?[0-9]+|[dDfF][+-][0-9]+)?",
    r"|(?i:infinity|inf|nan)(?:\([A-Za-z0-9_]*\))?))",
);
/// A step with commas between its thousands, such as `1,500`.
const GROUPED_STEP: &str = r"(?-Uix:[1-9][0-9]{0,2}(?:,[0-9]{3})+)|";
/// A text with a digit in the place of a number, or a word for a value that is missing.
const TEXT: &str = r"(?-Uix:\S*?[0-9]\S*|(?:N/?A|None|null|NULL)\b)";
/// The end of the name of a placeholder for a ratio.
const RATIO: &str = ":ratio";
/// Numbers that a group for numbers should read, too.
const PRINTED: [&str; 5] = ["-0.5", "1e-3", "3.33e-06", "nan", "inf"];

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    /// The pattern with any text in place of numbers, for lines whose numbers cannot be read.
    texts: Option<Regex>,
    groups: Vec<Group>,
    /// The name of the groups with the step.
    step: Option<String>,
}

/// A named group, or a placeholder.
#[derive(Debug, Clone)]
struct Group {
    /// Its name in the regular expression.
    capture: String,
    /// The name of the metric.
    name: String,
    /// The expression of a group; `None` for a placeholder.
    inner: Option<String>,
    /// True for the placeholder of a ratio.
    is_ratio: bool,
    /// The literal characters of the pattern before and after it.
    before: Option<char>,
    after: Option<char>,
}

/// A part of a line that a group has matched.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// A number.
    Number(Number),
    /// A text that is not a number.
    Text(String),
    /// A number of which the group has matched only a part: that part, and the whole number.
    Cut(String, String),
}

/// A match.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The step, if the pattern has one: `None` if it is not part of this match.
    pub step: Option<Option<Reading>>,
    /// The other parts, by name.
    pub parts: Vec<(String, Reading)>,
}

impl Pattern {
    /// Compiles a pattern. The error is a phrase.
    pub fn new(text: &str) -> Result<Self, String> {
        let (expanded, groups) = Scanner::new(text).scan()?;
        let compiled = RegexBuilder::new(&expanded).size_limit(MAX_COMPILED_BYTES).build();
        let regex = compiled.map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim();
            reason.trim_start_matches("error: ").to_owned()
        })?;
        let step = STEP_NAMES.iter().find(|step| groups.iter().any(|group| group.name == **step));
        if groups.iter().all(|group| STEP_NAMES.contains(&group.name.as_str())) {
            return Err("no group has the name of a metric".into());
        }
        let texts = RegexBuilder::new(&expanded.replace(NUMBER, TEXT).replace(THOUSANDS, TEXT))
            .size_limit(MAX_COMPILED_BYTES)
            .build()
            .ok();
        Ok(Self { regex, texts, groups, step: step.map(|step| (*step).to_owned()) })
    }

    /// The names of its metrics.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for group in self.groups.iter().filter(|group| Some(&group.name) != self.step.as_ref()) {
            if !names.contains(&group.name.as_str()) {
                names.push(&group.name);
            }
        }
        names
    }

    /// Its first match in a line. If a line matches except for texts that begin like numbers, these texts are returned in place of numbers.
    pub fn find(&self, line: &str) -> Option<Found> {
        let begin_like_numbers = |captures: &Captures<'_>| {
            let placeholders = self.groups.iter().filter(|group| group.inner.is_none());
            let mut texts = placeholders.filter_map(|group| captures.name(&group.capture));
            texts.all(|text| leading_number(text.as_str()).is_some())
        };
        let captures = self.regex.captures(line).or_else(|| {
            let captures = self.texts.as_ref()?.captures(line);
            captures.filter(begin_like_numbers)
        })?;
        let part = |name: &str| {
            let mut parts = self.groups.iter().filter(|group| group.name == name);
            parts.find_map(|group| group.part(&captures, line))
        };
        let parts = self.names().into_iter().filter_map(|name| Some((name.to_owned(), part(name)?))).collect();
        Some(Found { step: self.step.as_deref().map(part), parts })
    }

    /// The groups that read `0.5`, but not all numbers that programs print: name, expression, and the numbers that they do not read.
    pub fn gaps(&self) -> Vec<(&str, &str, Vec<&'static str>)> {
        let gap = |group: &'_ Group| {
            let whole = Regex::new(&format!("^(?:{})$", group.inner.as_ref()?)).ok()?;
            let missed: Vec<&str> = PRINTED.into_iter().filter(|number| !whole.is_match(number)).collect();
            (whole.is_match("0.5") && !missed.is_empty()).then_some(missed)
        };
        let groups = self.groups.iter().filter(|group| Some(&group.name) != self.step.as_ref());
        groups.filter_map(|group| Some((group.name.as_str(), group.inner.as_deref()?, gap(group)?))).collect()
    }
}

impl Group {
    fn part(&self, captures: &Captures<'_>, line: &str) -> Option<Reading> {
        let found = captures.name(&self.capture)?;
        let text = found.as_str();
        if self.is_ratio {
            let (before, rest) = (&line[..found.start()], &line[found.end()..]);
            // `1/2/3` is a date.
            let is_whole =
                begins_after(before) && ends_before(rest) && !before.ends_with('/') && !rest.starts_with('/');
            let ratio = ratio(text).filter(|_| is_whole);
            return Some(ratio.map_or_else(|| Reading::Text(text.to_owned()), Reading::Number));
        }
        let is_step = self.inner.is_none() && STEP_NAMES.contains(&self.name.as_str());
        let digits = if is_step { Cow::Owned(text.replace(',', "")) } else { Cow::Borrowed(text) };
        let Some(number) = Number::parse(&digits) else { return Some(Reading::Text(text.to_owned())) };
        let (start, rest) = (found.start() + text.len() - text.trim_start().len(), &line[found.end()..]);
        let next = rest.chars().next();
        let is_foreseen = next.is_some() && next == self.after;
        let longest = leading_number(&line[start..]).map_or(0, |(_, rest)| line.len() - start - rest.len());
        let is_cut = start + longest > found.end() || (self.inner.is_none() && !ends_before(rest));
        let previous = line[..start].chars().next_back();
        let is_begun = !begins_after(&line[..start]) && (previous.is_none() || previous != self.before);
        if (is_cut && !is_foreseen) || is_begun {
            return Some(Reading::Cut(text.to_owned(), word_around(line, start, found.end()).to_owned()));
        }
        let percent = self.inner.is_none() && rest.strip_prefix(' ').unwrap_or(rest).starts_with('%');
        Some(Reading::Number(if percent { Number::percent(number.value) } else { number }))
    }
}

/// The value of `98/100`, `98 of 100` and `98 out of 100`.
fn ratio(text: &str) -> Option<Number> {
    let (part, whole) = text.split_once('/').or_else(|| text.split_once("of"))?;
    let part = part.trim_end();
    let (part, whole) = (Number::parse(part.strip_suffix("out").unwrap_or(part))?, Number::parse(whole)?);
    Some(Number { value: part.value / whole.value, unit: None })
}

/// The text without spaces around a part of a line.
fn word_around(line: &str, start: usize, end: usize) -> &str {
    let begin = line[..start]
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
    let stop = line[end..].find(char::is_whitespace).map_or(line.len(), |at| end + at);
    &line[begin..stop]
}

/// State of the expansion of a pattern.
struct Scanner<'t> {
    text: &'t str,
    at: usize,
    out: String,
    groups: Vec<Group>,
    /// The open parentheses: the index of the group in `groups` and the place of its expression in `text`.
    open: Vec<Option<(usize, usize)>>,
    /// The literal character before.
    previous: Option<char>,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0, out: String::new(), groups: Vec::new(), open: Vec::new(), previous: None }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Copies `count` bytes of the pattern.
    fn copy(&mut self, count: usize) {
        self.out.push_str(&self.text[self.at..self.at + count]);
        self.at += count;
    }

    fn scan(mut self) -> Result<(String, Vec<Group>), String> {
        while let Some(char) = self.rest().chars().next() {
            match char {
                '\\' => self.escape(),
                '[' => self.class(),
                '(' => self.opening(),
                ')' => {
                    self.copy(1);
                    if let Some(Some((group, from))) = self.open.pop() {
                        self.groups[group].inner = Some(self.text[from..self.at - 1].to_owned());
                        let repeat = |char: &char| matches!(char, '?' | '*' | '+');
                        let rest = self.rest();
                        let rest = rest.chars().next().filter(repeat).map_or(rest, |char| &rest[char.len_utf8()..]);
                        self.groups[group].after = literal(rest);
                    }
                    self.previous = None;
                }
                '{' => self.brace()?,
                char => {
                    self.copy(char.len_utf8());
                    self.previous = (!is_special(char)).then_some(char);
                }
            }
        }
        Ok((self.out, self.groups))
    }

    /// `\d`, `\.`, `\p{Greek}`, `\x{7F}`, `\b{start}`.
    fn escape(&mut self) {
        let escaped = self.rest()[1..].chars().next();
        let length = 1 + escaped.map_or(0, char::len_utf8);
        let braced = escaped.is_some_and(|char| "pPxuUb".contains(char)) && self.rest()[length..].starts_with('{');
        let end = if braced { self.rest().find('}').map_or(length, |end| end + 1) } else { length };
        self.copy(end);
        self.previous = escaped.filter(char::is_ascii_punctuation);
    }

    /// `[^\]a-z]`, with classes inside.
    fn class(&mut self) {
        let (mut depth, mut length, mut is_first) = (0_usize, 0, true);
        let mut chars = self.rest().chars().peekable();
        while let Some(char) = chars.next() {
            length += char.len_utf8();
            match char {
                '\\' => length += chars.next().map_or(0, char::len_utf8),
                '[' => {
                    depth += 1;
                    if chars.next_if_eq(&'^').is_some() {
                        length += 1;
                    }
                    is_first = true;
                    continue;
                }
                ']' if !is_first => depth -= 1,
                _ => {}
            }
            is_first = false;
            if depth == 0 {
                break;
            }
        }
        self.copy(length);
        self.previous = None;
    }

    /// `(`, `(?:`, `(?<name>`, `(?P<name>`.
    fn opening(&mut self) {
        let rest = self.rest();
        let named = rest.strip_prefix("(?<").or_else(|| rest.strip_prefix("(?P<"));
        let Some((name, inner)) = named.and_then(|named| named.split_once('>')) else {
            self.open.push(None);
            self.copy(1);
            self.previous = None;
            return;
        };
        let before = self.previous.take();
        let group = Group {
            capture: name.to_owned(),
            name: name.to_owned(),
            inner: None,
            is_ratio: false,
            before,
            after: None,
        };
        self.groups.push(group);
        self.open.push(Some((self.groups.len() - 1, self.text.len() - inner.len())));
        self.copy(rest.len() - inner.len());
    }

    /// `{3,5}`, or a placeholder.
    fn brace(&mut self) -> Result<(), String> {
        let rest = &self.rest()[1..];
        let inner = rest.split_once('}').map(|(inner, _)| inner);
        let Some(inner) = inner.filter(|inner| inner.starts_with(|char: char| char.is_alphabetic() || char == '_'))
        else {
            self.copy(1);
            self.previous = None;
            return Ok(());
        };
        let length = inner.len() + 2;
        let (inner, is_ratio) = inner.strip_suffix(RATIO).map_or((inner, false), |name| (name, true));
        let fits = |char: char| char.is_alphanumeric() || "_-./@#%+".contains(char);
        if !inner.chars().all(fits) {
            let name: String = inner.chars().take_while(|char| fits(*char)).collect();
            return Err(format!("`{{{inner}}}` is not a placeholder: write `{{{name}}}`"));
        }
        let capture = format!("sweep_{}", self.groups.len());
        self.at += length;
        let before = self.previous.take();
        let after = literal(self.rest());
        let number = if before == Some(',') || after == Some(',') { NUMBER } else { THOUSANDS };
        let is_step = number == THOUSANDS && STEP_NAMES.contains(&inner);
        let grouped = if is_step { GROUPED_STEP } else { "" };
        let other = if is_ratio { [r"(?:\s*/\s*|\s+(?:out\s+)?of\s+)", number] } else { [""; 2] };
        self.out.extend([CALL, "(?<", &capture, ">", grouped, number].into_iter().chain(other).chain([")"]));
        self.groups.push(Group { capture, name: inner.to_owned(), inner: None, is_ratio, before, after });
        Ok(())
    }
}

/// The literal character with which a pattern begins.
fn literal(pattern: &str) -> Option<char> {
    let mut chars = pattern.chars();
    match chars.next()? {
        '\\' => chars.next().filter(char::is_ascii_punctuation),
        char => (!is_special(char)).then_some(char),
    }
}

fn is_special(char: char) -> bool {
    "\\.+*?()|[]{}^$".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pattern: &str, line: &str) -> Option<Vec<(String, Reading)>> {
        Pattern::new(pattern).unwrap().find(line).map(|found| found.parts)
    }

    fn value(pattern: &str, line: &str) -> Option<f64> {
        match read(pattern, line)?.pop()? {
            (_, Reading::Number(number)) => Some(number.value),
            _ => None,
        }
    }

    #[test]
    fn a_placeholder_reads_every_number_whole() {
        for number in ["3.33e-06", "-0.5", "1e-3", "+1.5", ".5", "5.", "1_000", "inf", "-Infinity", "1.0D+00"] {
            let expected = leading_number(number).map(|(value, _)| value);
            for line in ["step 1 loss X", "step 1 loss X, acc 3", "step 1 loss X]", "step 1 lr 2 loss X acc"] {
                let line = line.replace('X', number);
                assert_eq!(value("step {step} .*?loss {loss}", &line), expected, "{line}");
                assert_eq!(value("loss {loss}", &line), expected, "{line}");
            }
        }
        for line in ["loss nan", "loss NaN", "loss -nan", "loss nan(ind)"] {
            assert!(value("loss {loss}", line).is_some_and(f64::is_nan), "{line}");
        }
        assert_eq!(value("loss {loss}", "loss 1,234.5, acc 3"), Some(1234.5));
        assert_eq!(value("loss {loss}$", "loss -1,234,567"), Some(-1_234_567.0));
        assert_eq!(value("^{step},{tokens},.*,{loss}$", "100,200,300,0.5"), Some(0.5));
        let row = Pattern::new("^{step},.*,{loss}$").unwrap().find("100,200,300,0.5").unwrap();
        assert_eq!(row.step, Some(Some(Reading::Number(Number { value: 100.0, unit: None }))));
        assert_eq!(value("loss[ =:]+{loss}", "loss: tensor(0.25, device='cuda:0')"), Some(0.25));
        assert_eq!(value("'loss': {loss}", "{'loss': np.float32(0.25), 'x': 1}"), Some(0.25));
        assert_eq!(value("took {ms}ms", "took 12.6ms"), Some(12.6));
        assert_eq!(value("{step}/{total}", "3/10"), Some(10.0));
        assert_eq!(value("{step},{loss}", "3,0.5"), Some(0.5));
        assert_eq!(value("step-{x}", "step-3"), Some(3.0));
    }

    #[test]
    fn a_part_of_a_number_is_no_number() {
        let cut = |pattern: &str, line: &str| match read(pattern, line).unwrap().pop().unwrap().1 {
            Reading::Cut(part, whole) => (part, whole),
            part => panic!("{pattern}: {part:?}"),
        };
        let pair = |part: &str, whole: &str| (part.to_owned(), whole.to_owned());
        assert_eq!(cut(r"loss (?<loss>[\d.]+)", "loss 3.33e-06"), pair("3.33", "3.33e-06"));
        assert_eq!(cut(r"loss.*?(?<loss>[\d.]+)", "loss -0.5"), pair("0.5", "-0.5"));
        assert_eq!(cut(r"loss -?(?<loss>[\d.]+)", "loss -0.5"), pair("0.5", "-0.5"));
        assert_eq!(cut(".*{loss}", "x 0.25"), pair("5", "0.25"));
        assert_eq!(cut("loss {loss}", "loss 0,5"), pair("0", "0,5"));
        assert_eq!(cut("loss {loss}", "loss 1,234 x"), pair("1", "1,234"));
        assert_eq!(cut("loss {loss}", "loss 10k"), pair("10", "10k"));
        assert_eq!(cut("at {x}", "at 12:30"), pair("12", "12:30"));
        assert_eq!(cut("loss {loss}.+", "loss 0.5"), pair("0.", "0.5"));
        let found = read(r"loss {loss} \| acc {acc}", "loss 0,7 | acc 0.2").unwrap();
        assert_eq!(found[0].1, Reading::Text("0,7".into()), "a number that cannot be read does not hide the others");
        assert!(matches!(&found[1].1, Reading::Number(number) if number.value == 0.2));
        assert_eq!(read(r"loss {loss} \| acc {acc}", "loss of 2 kinds | acc 0.2"), None);
        assert_eq!(read(r"loss (?<loss>\S+)", "loss 0,5").unwrap()[0].1, Reading::Text("0,5".into()));
        assert_eq!(value(r"loss (?<loss>[\d.]+)", "loss 2.5, acc"), Some(2.5));
        assert_eq!(value(r"took (?<t>[\d.]+)", "took 2.5s"), Some(2.5));
        assert_eq!(value(r"(?<major>\d+)\.(?<minor>\d+)", "v1.2"), Some(2.0));
    }

    #[test]
    fn ratios_are_read() {
        assert_eq!(value("acc: {acc:ratio}", "acc: 9843/10000 (98%)"), Some(0.9843));
        assert_eq!(value("acc: {acc:ratio}", "acc: 1 / 4"), Some(0.25));
        assert_eq!(value("acc: {acc:ratio}", "acc: 45 of 50 (90%)"), Some(0.9));
        assert_eq!(value("acc: {acc:ratio}", "acc: 45 out of 60"), Some(0.75));
        assert_eq!(value("acc: {acc:ratio}", "acc: 5"), None);
        assert_eq!(value("acc: {acc:ratio}", "acc: 1/2/3"), None, "a date");
        assert!(value("acc: {acc:ratio}", "acc: 0/0").is_some_and(f64::is_nan));
        assert!(Pattern::new("{acc:percent}").unwrap_err().contains("write `{acc}`"));
    }

    #[test]
    fn percent_is_a_unit() {
        for (pattern, line) in [
            ("acc {acc}", "acc 95%"),
            ("acc {acc}%", "acc 95%"),
            ("acc {acc}", "acc 95 %"),
            (r"acc (?<acc>\S+)", "acc 95%"),
        ] {
            let expected = Reading::Number(Number { value: 95.0, unit: Some("%") });
            assert_eq!(read(pattern, line).unwrap()[0].1, expected, "{pattern}");
        }
    }

    #[test]
    fn quantifiers_and_other_braces_stay() {
        assert_eq!(value(r"a{2} x{1,3} \p{Greek} \x{41} [{a}] {loss}", "aa xx α A { 5"), Some(5.0));
        assert_eq!(value(r"\{{loss}\}", "{5}"), Some(5.0));
        assert_eq!(value("[]{loss}] {x}", "{ 7"), Some(7.0));
        let names = Pattern::new("{step} {recall@5} {точность} {eval/top-1}").unwrap();
        assert_eq!(names.names(), ["recall@5", "точность", "eval/top-1"]);
        let either = Pattern::new("loss={loss}|Loss: {loss}").unwrap();
        assert_eq!(either.find("Loss: 5").unwrap().parts[0].1, Reading::Number(Number { value: 5.0, unit: None }));
    }

    #[test]
    fn steps_are_found() {
        let found = Pattern::new("(?:step {step} )?loss {loss}").unwrap();
        assert!(matches!(found.find("step 3 loss 1").unwrap().step, Some(Some(Reading::Number(_)))));
        assert_eq!(found.find("loss 1").unwrap().step, Some(None));
        assert_eq!(Pattern::new("loss {loss}").unwrap().find("loss 1").unwrap().step, None);
    }

    #[test]
    fn groups_that_miss_numbers_are_named() {
        let gaps = |pattern: &str| {
            let pattern = Pattern::new(pattern).unwrap();
            pattern
                .gaps()
                .into_iter()
                .map(|(name, inner, missed)| format!("{name} {inner} {}", missed.join(" ")))
                .collect::<Vec<_>>()
        };
        assert_eq!(gaps(r"step (?<step>\d+) loss (?<loss>[\d.]+)"), [r"loss [\d.]+ -0.5 1e-3 3.33e-06 nan inf"]);
        assert_eq!(gaps(r"(?P<loss>-?\d+(\.\d+)?)"), [r"loss -?\d+(\.\d+)? 1e-3 3.33e-06 nan inf"]);
        assert!(gaps(r"loss (?<loss>\S+) ok (?<right>\d+) {x}").is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |pattern: &str| Pattern::new(pattern).unwrap_err();
        assert_eq!(error("(?<loss>"), "unclosed group");
        assert_eq!(error(r"loss (\d+)"), "no group has the name of a metric");
        assert_eq!(error("{step}"), "no group has the name of a metric");
        assert_eq!(error("loss {loss:.4f}"), "`{loss:.4f}` is not a placeholder: write `{loss}`");
        assert!(error(r"(?<x>\w{1,1000}){1000}").contains("size limit"));
        for hostile in ["{", "}", "[", "[[", "\\", "(?<", "(?<a", "{a", "\\p{", "[^]", "((((", "))))", "{a}{", "[\\"] {
            let _ = Pattern::new(hostile);
        }
    }
}
