//! Details of one job, as the script of the pages reads them.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use serde::Serialize;
use sweep_job::{Curve, Metric, Name, Unit, Value};

use super::{
    LiveCurve,
    list::{tags, took},
};
use crate::{
    format::{Scale, clean, clean_lines, duration, measured, printed_lines, shared_digits},
    record::{Record, without_keys},
    store::{Note, Notes},
    variant,
};

/// Names and values, ready to be read.
type Pairs = Vec<(String, String)>;

/// Details of a job.
#[derive(Debug, Default, Serialize)]
pub struct Detail {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Pairs,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    params: Pairs,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    facts: Pairs,
    /// Provenance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    made: Pairs,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// Notes, each with its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Pairs,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    curves: Vec<Drawn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<Tail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The command that explains why it runs or does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The changes of the job's variant of the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<String>,
}

/// A curve, thinned out.
#[derive(Debug, Serialize)]
struct Drawn {
    name: String,
    unit: &'static str,
    at: Vec<u64>,
    values: Vec<f64>,
}

/// The end of a log.
#[derive(Debug, Serialize)]
pub struct Tail {
    /// The log.
    pub path: String,
    /// Its last lines, safe to print.
    pub text: String,
    /// True if these are all of them.
    pub whole: bool,
}

/// More points than a drawing of this size can show.
const MAX_POINTS: usize = 150;
/// Number of bytes of a log that are shown with a job.
const TAIL: u64 = 4096;
/// Number of bytes of a log that are shown if the reader requests the whole log.
pub const WHOLE: u64 = 4 << 20;

impl Detail {
    /// Adds parameters.
    pub fn params<'v>(mut self, params: impl Iterator<Item = (&'v Name, &'v Value)>) -> Self {
        let text = |value: &Value| clean(&without_keys(&value.to_string())).into_owned();
        self.params.extend(params.map(|(name, value)| (clean(name).into_owned(), text(value))));
        self
    }

    /// Adds the content of its record, except its parameters. Its curves are in these units, if they can be converted.
    pub fn record(mut self, record: &Record, units: &BTreeMap<&str, Unit>) -> Self {
        let provenance = &record.provenance;
        let outcome = &record.outcome;
        let metric = |(name, metric): (&String, &Metric)| (clean(name).into_owned(), whole(name, *metric));
        self.metrics.extend(outcome.metrics.iter().map(metric));
        let fact = |(name, fact): (&String, &String)| (clean(name).into_owned(), clean(fact).into_owned());
        self.facts.extend(outcome.facts.iter().map(fact));
        let notice = |text: &String| ("notice".to_owned(), clean(text).into_owned());
        self.facts.extend(provenance.notices.iter().map(notice));
        self.facts.extend(outcome.artifacts.iter().map(|(name, path)| {
            let (name, path) = (clean(name), clean(path));
            (format!("artifact {name}"), format!("files/{path}"))
        }));
        self.curves.extend(outcome.curves.iter().map(|(name, curve)| match units.get(name.as_str()) {
            Some(unit) => drawn(name, &curve.in_unit(*unit).unwrap_or_else(|| curve.clone())),
            None => drawn(name, curve),
        }));
        let device = provenance.device.as_ref().map(|device| format!("{} ({})", device.backend.name(), device.name));
        let source = |text: String| ("source".to_owned(), clean(&text).into_owned());
        self.made.extend(provenance.sources().into_iter().map(source));
        // Nothing of an imported record was computed on this machine or by this program.
        let local_value = |value: String| record.imported().is_none().then_some(value);
        let facts = [
            ("key", Some(record.key.to_string())),
            ("task", Some(format!("{}, revision {}", record.identity.task, record.identity.revision))),
            ("begun", Some(provenance.started.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())),
            ("took", took(record).map(duration)),
            ("imported from", record.imported().map(str::to_owned)),
            ("machine", local_value(provenance.host.clone())),
            ("device", device),
            ("threads", local_value(provenance.threads.to_string())),
            ("sweep", local_value(provenance.sweep.clone())),
        ];
        let facts = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), clean(&value?).into_owned())));
        self.made.extend(facts);
        self.changes = variant::changes(&record.params).map(|text| clean(&text).into_owned());
        let conditions = provenance.conditions.iter().flat_map(|conditions| conditions.facts());
        self.made.extend(conditions.map(|(name, value)| (name.to_owned(), clean(&value).into_owned())));
        self
    }

    /// Adds the series that a job without a record has reported.
    pub fn live(mut self, curves: &[LiveCurve]) -> Self {
        let curve = |LiveCurve { name, points, .. }: &LiveCurve| {
            let (at, values) = points.iter().copied().unzip();
            drawn(name, &Curve { unit: Unit::One, at, values })
        };
        self.curves.extend(curves.iter().map(curve));
        self
    }

    /// Adds a line to its provenance.
    pub fn fact(mut self, name: &str, value: &str) -> Self {
        self.made.push((name.to_owned(), clean(value).into_owned()));
        self
    }

    /// Adds the tags and notes on its record.
    pub fn notes(mut self, notes: Option<&Notes>) -> Self {
        let Some(notes) = notes else { return self };
        self.tags = tags(notes);
        let text = |note: &Note| (note.at.strftime("%Y-%m-%d %H:%M UTC").to_string(), clean_lines(&note.text));
        self.notes = notes.notes().map(text).collect();
        self
    }

    /// Adds the end of its log, if it has written anything.
    pub fn log(mut self, path: Option<&Path>) -> Self {
        self.log = path.and_then(tail);
        self
    }

    /// Adds the command that runs it, and the command that explains it.
    pub fn commands(mut self, command: &str, why: Option<&str>) -> Self {
        self.command = Some(clean(command).into_owned());
        self.why = why.map(|why| clean(why).into_owned());
        self
    }
}

/// Significant digits of a metric in the details of its job.
const DIGITS: usize = 10;

/// A metric's number with its unit, with all digits of a number that three digits do not show.
fn whole(name: &str, metric: Metric) -> String {
    let text = measured(name, metric);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let scaled = metric.value / Scale::of_metric(name, metric.value, metric.unit).factor;
    let rounded = || format!("{scaled:.*e}", DIGITS - 1).parse::<f64>().unwrap_or(scaled);
    let exact = if scaled.fract() == 0.0 { scaled } else { rounded() };
    if !exact.is_finite() || number.parse::<f64>() == Ok(exact) {
        return text;
    }
    let number =
        if exact == 0.0 || (1e-4..1e16).contains(&exact.abs()) { exact.to_string() } else { format!("{exact:e}") };
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

fn drawn(name: &str, curve: &Curve) -> Drawn {
    let readings: Vec<(u64, f64)> =
        curve.at.iter().copied().zip(curve.values.iter().copied()).filter(|(_, value)| value.is_finite()).collect();
    let last = readings.len().saturating_sub(1);
    let number = readings.len().min(MAX_POINTS);
    let indices = (0..number).map(|index| if number > 1 { index * last / (number - 1) } else { last });
    // Digits that a drawing cannot show would make up most of the page.
    let digits = (4 + shared_digits(readings.iter().map(|(_, value)| *value))).min(16);
    let rounded = |value: f64| format!("{value:.digits$e}").parse().unwrap_or(value);
    let (at, values) = indices.map(|index| (readings[index].0, rounded(readings[index].1))).unzip();
    Drawn { name: clean(name).into_owned(), unit: curve.unit.symbol(), at, values }
}

/// The end of a log; `None` if there is nothing in it.
pub fn tail(path: &Path) -> Option<Tail> {
    end_of(path, TAIL)
}

/// The end of a log, of at most `most` bytes.
pub fn end_of(path: &Path, most: u64) -> Option<Tail> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let begin = length.saturating_sub(most);
    file.seek(SeekFrom::Start(begin)).ok()?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line, or its first character, may be cut.
    let text = if begin > 0 { text.split_once('\n').map_or(&*text, |(_, tail)| tail) } else { &text };
    let text = printed_lines(text.trim_end());
    (!text.is_empty()).then(|| Tail { path: clean(&path.display().to_string()).into_owned(), text, whole: begin == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_ends() {
        let at: Vec<u64> = (1..=1000).collect();
        let values: Vec<f64> = at.iter().map(|at| 1.0 / *at as f64).collect();
        let curve = drawn("loss", &Curve { unit: Unit::Nats, at, values });
        assert_eq!((curve.at.len(), curve.at[0], curve.at[MAX_POINTS - 1]), (MAX_POINTS, 1, 1000));
        assert_eq!(curve.values[MAX_POINTS - 1], 0.001);
        let short = |values: Vec<f64>| {
            let curve = Curve { unit: Unit::One, at: vec![5; values.len()], values };
            super::drawn("x", &curve).values
        };
        assert_eq!(short(vec![]), [0.0; 0]);
        assert_eq!(short(vec![f64::NAN, 2.0]), [2.0]);
    }

    #[test]
    fn values_keep_the_digits_that_tell_them_apart() {
        let near: Vec<f64> = (0..4).map(|at| 1_000_011.0 + f64::from(at)).collect();
        let curve = drawn("near", &Curve { unit: Unit::One, at: vec![1, 2, 3, 4], values: near.clone() });
        assert_eq!(curve.values, near);
        let text = |value, unit| whole("x", Metric { value, unit });
        assert_eq!(text(0.5, Unit::One), "0.500");
        assert_eq!(text(0.912_345, Unit::One), "0.912345");
        assert_eq!(text(12.612_345, Unit::Milliseconds), "12.612345 ms");
        assert_eq!(text(123_456_789_013.0, Unit::One), "123456789013");
        assert_eq!(text(2.5e-300, Unit::One), "2.50e-300");
        assert_eq!(text(f64::NAN, Unit::One), "NaN");
    }

    #[test]
    fn of_a_long_log_the_last_whole_lines_are_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = "é".repeat(60);
        fs_err::write(file.path(), format!("{}\u{1b}[2Jend\n", format!("{line}\n").repeat(100))).unwrap();
        let tail = tail(file.path()).unwrap();
        assert!(!tail.whole && tail.text.starts_with(&line) && tail.text.ends_with("\\u{1b}[2Jend"), "{}", tail.text);
        assert!(tail.text.len() < 4200);
        // The last state of a progress bar without a line break is shown.
        fs_err::write(file.path(), (0..1000).map(|at| format!("\r{at:4}/1000")).collect::<Vec<_>>().concat()).unwrap();
        assert_eq!(super::tail(file.path()).unwrap().text, " 999/1000");
    }
}
