//! Lines of several processes: `[rank1]: loss 0.5`, `rank 1 | loss 0.5`, `[GPU 1]`, `[1]: loss 0.5`, `(RayTrainWorker pid=7)`.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::LazyLock,
};

use regex::Regex;

use super::{forms::form, patterns::STEP, regex};

/// The mark of a process with the word for it.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)^\s*(?:(?:rank|gpu|process|proc)[ :=_]?(?<start>\d+)\s*[|:>,-]|\[\d+,(?<mpi>\d+)\]<std(?:out|err)>:",
        r"|\[default(?<default>\d+)\]:)",
        r"|[\[(](?:local[ _])?(?:rank|gpu|process|proc)[ :=_]*(?<bracketed>\d+)[\])]",
        r"|(?:^|[\s,;|])rank[:= ] ?(?<setting>\d+)(?:[\s,;|]|$)",
    ))
});
/// A mark of `srun --label` and of some launchers, which may also be the number of an iteration.
static BARE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(?:\[(?<bracketed>\d{1,4})\]:|(?<start>\d{1,4}):)\s"));
/// The mark of Ray, which does not contain the rank.
static PID: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*\((?<name>[A-Za-z_][A-Za-z0-9_.]*)(?:\([^)]*\))? pid=(?<pid>\d+)[^)]*\)"));

/// A device, which is the mark of a process only in an output with several devices: another job may use another one.
static DEVICE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?:^|[\s\[(])cuda:(?<device>\d+)(?:[\s\]),;|]|$)"));

/// Maximum number of processes whose bare numbers count as ranks.
const MAX_BARE: u64 = 64;

/// The processes whose lines an output has.
pub(super) struct Ranks {
    /// True if bare numbers in front of lines are ranks.
    are_bare: bool,
    /// True if devices are marks: lines name the device 0 and others.
    are_devices: bool,
    /// True if a line has the mark of process 0.
    has_first: bool,
    /// The mark of lines of several processes, if the output does not show which of them is the first.
    pub(super) unknown: Option<String>,
}

impl Ranks {
    pub(super) fn of(lines: &[&str]) -> Self {
        let (are_bare, bare_mark) = bare(lines);
        let unknown = processes(lines).or_else(|| bare_mark.filter(|_| !are_bare));
        let has_first = lines.iter().any(|line| number(&NAMED, line) == Some(0));
        let devices: BTreeSet<u64> = lines.iter().filter_map(|line| number(&DEVICE, line)).collect();
        let are_devices = devices.len() > 1 && devices.contains(&0);
        Self { are_bare, are_devices, has_first, unknown }
    }

    /// True for a line of a process other than the first.
    pub(super) fn is_other(&self, line: &str) -> bool {
        let is_torchrun = || line.trim_start().starts_with("[rank");
        match number(&NAMED, line) {
            Some(rank) => rank > 0 && (self.has_first || is_torchrun()),
            None => {
                let is_bare = self.are_bare && number(&BARE, line).is_some_and(|rank| rank > 0);
                is_bare || self.are_devices && number(&DEVICE, line).is_some_and(|device| device > 0)
            }
        }
    }

    /// A pattern of the mark of the first process, if the line has one.
    pub(super) fn first_mark(&self, line: &str) -> Option<String> {
        let place = self.mark(line)?;
        let words: Vec<String> = line[place.clone()].split_whitespace().map(regex::escape).collect();
        let start = if line[..place.start].trim().is_empty() { r"^\s*" } else { "^.*?" };
        Some(format!(r"{start}{}\b", words.join(r"\s*")))
    }

    /// The place of the mark of the first process, up to its number: the text behind the number may separate the mark from the words of a
    /// metric.
    pub(super) fn mark(&self, line: &str) -> Option<Range<usize>> {
        let of = |mark: &Regex| mark.find(line).filter(|_| number(mark, line) == Some(0));
        let bare = || of(&BARE).filter(|_| self.are_bare);
        let found = of(&NAMED).or_else(bare).or_else(|| of(&DEVICE).filter(|_| self.are_devices))?;
        let mark = found.as_str().trim_end_matches(|char: char| !char.is_ascii_alphanumeric());
        Some(found.start()..found.start() + mark.len())
    }
}

/// True if bare numbers in front of lines are ranks: two of them are in front of lines of one form and one step. Also the mark of lines
/// that may be lines of processes.
fn bare(lines: &[&str]) -> (bool, Option<String>) {
    let mut numbers = BTreeSet::new();
    let mut of_steps: BTreeMap<(String, String), u64> = BTreeMap::new();
    let (mut are_processes, mut mark) = (false, None);
    for line in lines {
        let (Some(found), Some(rank)) = (BARE.find(line), number(&BARE, line)) else { continue };
        numbers.insert(rank);
        mark = mark.or(Some(found.as_str().trim().to_owned()));
        if let Some(step) = STEP.captures(line) {
            let rest = (form(&line[found.end()..]), step["number"].to_owned());
            are_processes |= *of_steps.entry(rest).or_insert(rank) != rank;
        }
    }
    let count = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
    let is_list = (2..=MAX_BARE).contains(&count) && numbers.last() == Some(&(count - 1));
    (are_processes && is_list, mark.filter(|_| is_list))
}

/// The mark of several processes of one kind.
fn processes(lines: &[&str]) -> Option<String> {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for found in lines.iter().filter_map(|line| PID.captures(line)) {
        let (name, pid) = (found.name("name")?.as_str(), found.name("pid")?.as_str());
        if *known.entry(name).or_insert(pid) != pid {
            return Some(format!("({name} pid=…)"));
        }
    }
    None
}

/// The rank in a mark.
fn number(mark: &Regex, line: &str) -> Option<u64> {
    mark.captures(line)?.iter().skip(1).flatten().next()?.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::{last_value, printed_results};

    #[test]
    fn the_first_process_counts() {
        for mark in [
            "[rank0] ",
            "[rank0]: ",
            "[Rank 0] ",
            "[rank:0] ",
            "(rank 0) ",
            "[GPU 0] ",
            "[GPU0] ",
            "rank 0 | ",
            "rank 0: ",
            "Rank 0 - ",
            "rank=0 ",
            "rank: 0, ",
            "[default0]:",
            "[1,0]<stdout>: ",
            "INFO [rank 0] x ",
            "[0]: ",
            "0: ",
            "Rank 0, ",
            "epoch 7 | rank 0 | ",
            "cuda:0 ",
            "[cuda:0] ",
        ] {
            let line = |rank: char, step: u8, loss: f64| {
                format!("{}step {step} loss: {loss}\n", mark.replace('0', &rank.to_string()))
            };
            let output =
                line('0', 1, 0.9) + &line('1', 1, 0.8) + &line('1', 2, 0.7) + &line('0', 2, 0.6) + &line('1', 3, 0.5);
            let found = printed_results(std::iter::once(output.as_str()));
            let values: Vec<_> =
                found.read.iter().map(|number| (number.name.as_str(), last_value(number, &output))).collect();
            assert_eq!((values, found.missed.len()), (vec![("loss", Some(0.6))], 0), "{output}");
        }
        // A job with one device has the pattern of the jobs with others.
        let of_device = |device: u8| format!("cuda:{device} epoch 1 loss: 0.{device}\n");
        let number = printed_results(std::iter::once(of_device(0).as_str())).read.remove(0);
        assert_eq!(last_value(&number, &of_device(1)), Some(0.1), "{}", number.pattern);
        // The rank of an adapter, and the numbers of iterations.
        for (output, value) in [("rank=8 loss=0.5\nrank=16 loss=0.4", 0.4), ("10: loss 0.5\n20: loss 0.4", 0.4)] {
            let found = printed_results(std::iter::once(output));
            assert_eq!((last_value(&found.read[0], output), found.missed.len()), (Some(value), 0), "{output}");
        }
    }
}
