//! Collects the numbers of an output.

use std::collections::{BTreeMap, BTreeSet};

use regex::Captures;
use sweep_job::tasks::{Number, Pattern};

use super::{
    Context, Printed, PrintedNumbers, Wanted,
    columns::Row,
    forms::Forms,
    layouts::{self, Layouts},
    missed::{self, Missed, Why},
    names::{self, SPLIT_WORD, Tag, joined, signature, tag_of},
    patterns::{Lead, pattern},
    sections::{self, Section, Sections},
    value,
};

/// A number of a line.
struct Occurrence<'t> {
    /// The index of the line.
    at: usize,
    captures: Captures<'t>,
    /// The name, without the name of the tag.
    base: String,
    /// All words before the number.
    longer: String,
    tag: Option<Tag>,
    /// The words that may tell its line from others with the same name.
    signature: BTreeMap<String, (usize, String)>,
    section: Section,
}

impl Occurrence<'_> {
    fn name_of(&self, base: &str) -> String {
        match &self.tag {
            Some(tag) if !base.starts_with(&tag.name) => format!("{}_{base}", tag.name),
            _ => base.to_owned(),
        }
    }

    /// True for a number that is the end of a word.
    fn is_word(&self) -> bool {
        let words = self.captures.name("words").map(|words| words.end());
        words == self.captures.name("number").map(|number| number.start())
    }

    fn name(&self) -> String {
        self.name_of(&self.base)
    }

    /// The pattern that reads it under a name.
    fn pattern(&self, line: &str, name: &str, context: &Context) -> String {
        pattern(line, &self.captures, name, self.tag.as_ref().and_then(Lead::of), context)
    }

    /// Patterns that read it under a name, and fewer other lines.
    fn narrow(&self, line: &str, name: &str, context: &Context) -> Vec<String> {
        let first_word = || Lead::first_word(line, &self.captures);
        let leads = self.tag.is_none().then(first_word).into_iter().chain([Lead::whole(line, &self.captures, context)]);
        leads.map(|lead| pattern(line, &self.captures, name, Some(lead), context)).collect()
    }
}

/// Numbers in the order of their first lines.
struct Numbers<'c> {
    context: &'c Context,
    all: Vec<Taken>,
    /// The sections in which each name is.
    sections: BTreeMap<String, BTreeSet<Section>>,
    /// True for each pattern that reads the number of its line.
    known: BTreeMap<String, bool>,
}

/// A number with the lines that its pattern reads.
pub(super) struct Taken {
    pub(super) printed: Printed,
    /// Patterns that read fewer lines.
    pub(super) narrow: Vec<String>,
    /// The indices of its lines.
    pub(super) lines: BTreeSet<usize>,
}

impl Numbers<'_> {
    /// True if a pattern reads the number of a line; of lines with the same pattern, the first decides.
    fn reads(&mut self, pattern: &str, line: &str) -> bool {
        let read = || Pattern::new(pattern).is_ok_and(|pattern| value(&pattern, line).is_some());
        *self.known.entry(pattern.to_owned()).or_insert_with(read)
    }

    fn of_name(&self, name: &str) -> Option<&Taken> {
        self.all.iter().find(|taken| taken.printed.name == name)
    }

    /// Takes a number of a line. Returns false if its name belongs to a number with another pattern.
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

    /// True for a number that is that of the last line with its name.
    fn repeats(&self, occurrence: &Occurrence<'_>, name: &str, lines: &[&str]) -> bool {
        let Some(taken) = self.of_name(name) else { return false };
        let last = taken.lines.last().and_then(|at| value(&Pattern::new(&taken.printed.pattern).ok()?, lines[*at]));
        let number = occurrence.captures.name("number").and_then(|number| Number::parse(number.as_str()));
        last.is_some() && last == number.map(|number| number.value)
    }

    /// Takes a number of a line without a layout, if its pattern reads it.
    fn take_occurrence(&mut self, occurrence: &Occurrence<'_>, name: &str, line: &str) -> bool {
        let (pattern, context) = (occurrence.pattern(line, name, self.context), self.context);
        self.reads(&pattern, line)
            && self.take(name, pattern, (occurrence.at, line), || occurrence.narrow(line, name, context))
    }
}

/// Collects the wanted numbers of `lines`.
pub(super) fn collect(lines: &[&str], wanted: Wanted<'_>, context: &Context) -> PrintedNumbers {
    let mut numbers = Numbers { context, all: Vec::new(), sections: BTreeMap::new(), known: BTreeMap::new() };
    let (mut layouts, mut sections, mut missed) = (Layouts::default(), Sections::default(), Vec::new());
    let (mut occurrences, mut rows) = (Vec::new(), Vec::new());
    for (at, line) in lines.iter().enumerate() {
        let mut placed = layouts.numbers(line);
        placed.retain(|(name, _)| wanted.has(name) || layouts::is_evaluation(line));
        let (is_placed, row) = (!placed.is_empty(), layouts.row());
        for (name, pattern) in placed {
            let pattern = match context.ranks.first_mark(line) {
                Some(mark) => format!("{mark}.*?{}", pattern.trim_start_matches('^')),
                None => pattern,
            };
            rows.push(InRow { at, name, pattern, row: row.clone() });
        }
        let section = sections.of(line);
        if !is_placed {
            let found = of_line((at, line), wanted, &section);
            let is_found = |missed: &Missed| found.iter().any(|other| other.base.ends_with(&missed.name));
            missed.extend(missed::of_line(line, wanted).into_iter().filter(|missed| !is_found(missed)));
            missed.extend(at.checked_sub(1).and_then(|before| missed::below(lines[before], line, wanted)));
            occurrences.extend(found);
        }
    }
    missed.extend(numbers.take_rows(&rows, lines));
    tell_apart(&mut occurrences);
    let others = numbers.take_all(&occurrences, lines);
    // A number in another form, behind all lines of the first form, is the result.
    for occurrence in others {
        let (name, line) = (occurrence.name(), lines[occurrence.at]);
        let last = numbers.of_name(&name).and_then(|taken| taken.lines.last());
        let is_result = matches!(wanted, Wanted::Results) && last.is_some_and(|last| *last < occurrence.at);
        if is_result && numbers.repeats(occurrence, &name, lines) {
            continue;
        }
        if is_result && numbers.take_occurrence(occurrence, &format!("final_{name}"), line) {
            continue;
        }
        match missed::of_line(line, wanted).into_iter().find(|missed| occurrence.base == missed.name) {
            Some(text) if !numbers.reads(&occurrence.pattern(line, &name, context), line) => {
                missed.push(Missed { name, ..text });
            }
            // `AP50` is a word.
            _ if occurrence.is_word() => {}
            _ => missed.push(Missed::new(&name, line, Why::Other)),
        }
    }
    numbers.told(lines, missed)
}

/// A number of a line with a layout.
struct InRow {
    at: usize,
    name: String,
    pattern: String,
    row: Row,
}

/// Labels of the row of a table that is about all other rows.
const SUMMARIES: [&str; 6] = ["all", "average", "avg", "mean", "overall", "total"];

impl Numbers<'_> {
    /// Takes the numbers of lines with a layout. In a table with a row for each model or data set, names begin with that of the row, unless
    /// a row is about all. Returns the numbers of tables whose rows have no order, of which the last counts.
    fn take_rows(&mut self, rows: &[InRow], lines: &[&str]) -> Vec<Missed> {
        let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut keys: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for InRow { name, row, .. } in rows {
            if let Some(label) = &row.label {
                labels.entry(name).or_default().insert(label);
            }
            if let Some((column, cell)) = row.key.as_ref().filter(|(column, _)| column != name) {
                keys.entry((name, column)).or_default().insert(cell);
            }
        }
        let several = keys.iter().filter(|(_, cells)| cells.len() > 1);
        let last = |name: &str| rows.iter().rfind(|number| number.name == name).map_or("", |number| lines[number.at]);
        let missed = several.map(|((name, column), _)| Missed::new(name, last(name), Why::Rows((*column).to_owned())));
        let mut missed: Vec<Missed> = missed.collect();
        // Rows of two tables with the same form, such as `step,loss` and `step,val_loss`, are alike.
        let mut forms: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for InRow { name, pattern, .. } in rows {
            forms.entry(form_of(pattern)).or_default().insert(name);
        }
        let alike: BTreeSet<&str> = forms.values().filter(|names| names.len() > 1).flatten().copied().collect();
        missed.extend(alike.iter().map(|name| Missed::new(name, last(name), Why::Form)));
        for InRow { at, name, pattern, row } in rows.iter().filter(|row| !alike.contains(row.name.as_str())) {
            let of_name = labels.get(name.as_str());
            let summary = of_name.and_then(|labels| labels.iter().find(|label| SUMMARIES.contains(label)));
            let (name, pattern) = match (&row.label, of_name) {
                (Some(label), Some(all)) if all.len() > 1 => match summary {
                    Some(summary) if label != summary => continue,
                    Some(_) => (name.clone(), pattern.clone()),
                    None => {
                        let long_name = format!("{label}_{name}");
                        let pattern = pattern.replace(&format!("{{{name}}}"), &format!("{{{long_name}}}"));
                        (long_name, pattern)
                    }
                },
                _ => (name.clone(), pattern.clone()),
            };
            self.take(&name, pattern, (*at, lines[*at]), Vec::new);
        }
        missed
    }

    /// Takes the numbers of lines without a layout. Returns the numbers whose name belongs to a number with another pattern.
    fn take_all<'o, 't>(&mut self, occurrences: &'o [Occurrence<'t>], lines: &[&str]) -> Vec<&'o Occurrence<'t>> {
        let mut others = Vec::new();
        let mut longer_names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for occurrence in occurrences {
            longer_names.entry(occurrence.name()).or_default().insert(occurrence.name_of(&occurrence.longer));
        }
        for occurrence in occurrences {
            let (line, own_name) = (lines[occurrence.at], occurrence.name());
            // Lines of another form need another pattern, and are a separate metric: `Test set loss` beside `Loss`.
            let longer = Some(occurrence.name_of(&occurrence.longer)).filter(|longer| longer.len() > own_name.len());
            // None of `Baseline accuracy` and `Pruned accuracy` is the accuracy.
            let all = &longer_names[&own_name];
            let is_ambiguous = all.len() > 1 && !all.contains(&own_name);
            let mut names = std::iter::once(own_name).filter(|_| !is_ambiguous).chain(longer);
            let taken = names.find(|name| self.take_occurrence(occurrence, name, line));
            match taken {
                Some(name) if occurrence.tag.is_none() => {
                    self.sections.entry(name).or_default().insert(occurrence.section.clone());
                }
                Some(_) => {}
                None => others.push(occurrence),
            }
        }
        others
    }

    /// The numbers with patterns that read no other lines, and the missed numbers.
    fn told(mut self, lines: &[&str], mut missed: Vec<Missed>) -> PrintedNumbers {
        move_means(&mut self.all);
        let forms = Forms::of(lines);
        let mut read = Vec::new();
        for taken in self.all {
            let Printed { name, line, .. } = taken.printed.clone();
            let sections = self.sections.get(&name);
            let parts =
                sections.map(|sections| sections::distinct(sections, |section| &section.part)).unwrap_or_default();
            // A line does not name its section, so no pattern can distinguish numbers of several sections.
            if parts.len() > 1 {
                missed.push(Missed::new(&name, &line, Why::Sections(parts)));
                continue;
            }
            let Some(only) = forms.only(taken) else {
                missed.push(Missed::new(&name, &line, Why::Form));
                continue;
            };
            let headings = sections.map(|sections| sections::distinct(sections, |section| &section.heading));
            let headings = headings.map(|mut headings| {
                headings.retain(|heading| !heading.is_empty());
                headings
            });
            if let Some(headings) = headings.filter(|headings| headings.len() > 1) {
                missed.push(Missed::new(&name, &line, Why::Headings(headings)));
            } else if let Some(mark) = &self.context.ranks.unknown {
                missed.push(Missed::new(&name, &line, Why::Processes(mark.clone())));
            }
            read.push(only);
        }
        PrintedNumbers { read, missed }
    }
}

/// A pattern without the names of its places.
fn form_of(pattern: &str) -> String {
    let mut parts = pattern.split('{');
    let mut form = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['}', ':']).unwrap_or(0);
        form.push('{');
        // A quantifier such as `{2}` is no place.
        form.push_str(if part[..end].bytes().all(|byte| byte.is_ascii_digit() || byte == b',') {
            part
        } else {
            &part[end..]
        });
    }
    form
}

/// Moves the means of a number that is printed more often, as for each batch, before it: `mean_loss` before `loss`.
fn move_means(all: &mut [Taken]) {
    const MEANS: [&str; 4] = ["average", "avg", "epoch", "mean"];
    for at in 1..all.len() {
        let name = &all[at].printed.name;
        let base = MEANS.iter().find_map(|mean| {
            let before = name.strip_prefix(mean).and_then(|name| name.strip_prefix('_'));
            before.or_else(|| name.strip_suffix(mean).and_then(|name| name.strip_suffix('_')))
        });
        let is_base = |taken: &Taken| Some(taken.printed.name.as_str()) == base;
        let earlier = all[..at].iter().position(is_base);
        if let Some(earlier) = earlier.filter(|earlier| all[*earlier].lines.len() > all[at].lines.len()) {
            all[earlier..=at].rotate_right(1);
        }
    }
}

/// The numbers of a line without a layout.
fn of_line<'t>((at, line): (usize, &'t str), wanted: Wanted<'_>, section: &Section) -> Vec<Occurrence<'t>> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(captures) = names::next_number(line, start) {
        if let Some(end) = names::end_of_word_for_number(&captures) {
            // `loss nan acc 0.9`
            if let Some(captures) = names::next_number(&line[..end], start)
                && let Some((base, words)) = wanted.named(line, &captures)
            {
                found.push((base, joined(&words), captures));
            }
            start = end;
            continue;
        }
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
        let before = names::of_split(line, &captures).filter(|(name, _)| *name == base).map(|(_, tag)| tag);
        let tag = before.or(remark).or_else(|| tag_of(line, &captures, &own_splits).filter(|_| !has_own));
        let signature = signature(line, &captures, tag.as_ref(), &base);
        Occurrence { at, captures, base, longer, tag, signature, section: section.clone() }
    });
    occurrences.collect()
}

/// Adds the split of the data or the label of the line to the names of numbers that would have the same name.
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
