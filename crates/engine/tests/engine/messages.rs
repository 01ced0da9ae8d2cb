//! Snapshots of messages to people, without parts that differ from run to run: times, places, names, order.

use std::fmt::{self, Write as _};

/// Patterns of parts that differ, and their replacements in a snapshot.
const FILTERS: [(&str, &str); 21] = [
    // It depends on the machine.
    (r"(?m)^.*\bjobs?, (?:\d+ at once|one at a time) \(.*\)\n?", ""),
    (r"(?m)^.*\bnot observed: .*\n?", ""),
    (r"(?m)^conditions\n(?:  .+\n?)+", "conditions\n  [conditions]\n"),
    (r"\bjust now\b|\b\d+ (?:min|h) ago\b", "[then]"),
    (r"(  |\b(?:about|after|began|ended|in|since) |, )(?:\d+ (?:h|min) )*\d+(?:\.\d)? (?:ms|s|min)\b", "${1}[time]"),
    (r"\bin \d+(?:\.\d+)?(?:µs|ms|s)\b", "in [time]"),
    (r" on \S+ in \[time\]", " on [host] in [time]"),
    (r"(?m)^  host: .*", "  host: [host]"),
    (r"(?m)^  threads: \d+(, \d+)*", "  threads: [threads]"),
    (r"--seed \d{3,}", "--seed [seed]"),
    (r"\bat line \d+ column \d+", "at [place]"),
    (r"\b(records|store)/[0-9a-f]{2}/", "$1/[shard]/"),
    (r"\bsweep-[0-9a-f]{8}\b", "sweep-[store]"),
    (r"\bformat\.[0-9a-f]{12}-\d+", "format.[process]"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?\b", "[date]"),
    (r"\b\d{4}-\d\d-\d\d\b", "[date]"),
    (r"\b\d{8}T\d{6}Z-\d+", "[run]"),
    (r"\b[0-9a-f]{64}\b", "[key]"),
    (r"\b[0-9a-f]{12}\b", "[key]"),
    (r"(?:/[\w.-]+)*/\.tmp\w{6}", "[folder]"),
    (r"127\.0\.0\.1:\d+|localhost:\d+", "[host]"),
];

/// The settings of these snapshots, with more patterns.
pub(crate) fn settings(more: &[(&str, &str)]) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    for (pattern, stand_in) in FILTERS.iter().chain(more) {
        settings.add_filter(pattern, *stand_in);
    }
    settings
}

/// The lines of jobs that ran side by side, which may come in any order, without their numbers.
pub(crate) fn sorted(text: &str) -> String {
    let unnumbered = |line| match str::split_once(line, "] ") {
        Some((number, rest)) if number.starts_with('[') => rest,
        _ => line,
    };
    let mut lines: Vec<&str> = text.lines().map(unnumbered).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// A text in which every block of lines about jobs that ran side by side is sorted, without their numbers.
pub(crate) fn settled(text: &str) -> String {
    let is_job = |line: &&str| line.starts_with('[');
    let lines: Vec<&str> = text.lines().collect();
    let blocks = lines.chunk_by(|one, next| is_job(one) == is_job(next));
    let blocks: Vec<String> =
        blocks.map(|block| if is_job(&block[0]) { sorted(&block.join("\n")) } else { block.join("\n") }).collect();
    blocks.join("\n")
}

/// The messages of several cases, each below its name.
#[derive(Default)]
pub(crate) struct Transcript(String);

impl Transcript {
    pub(crate) fn add(&mut self, case: &str, text: &str) {
        let separator = if self.0.is_empty() { "" } else { "\n" };
        write!(self.0, "{separator}# {case}\n{}\n", text.trim_end()).unwrap();
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Asserts that a message is the one in the test's snapshot. More filters can follow.
macro_rules! assert_message {
    ($text:expr $(, $pattern:expr => $stand_in:expr)* $(,)?) => {
        $crate::messages::settings(&[$(($pattern, $stand_in)),*])
            .bind(|| insta::assert_snapshot!(std::string::ToString::to_string(&$text)))
    };
}
