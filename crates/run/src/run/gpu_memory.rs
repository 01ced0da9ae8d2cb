//! Memory that jobs use on GPUs, estimated from records of jobs of the same shape.
//!
//! The shape of a job is its identity without the parts that cannot change its use of memory: the needed jobs, the
//! code, and the parameters in [`NEUTRAL`]. In the arguments and scripts of programs, the same names are recognized as
//! flags.

use std::collections::HashMap;

use sweep_job::{Metrics, Unit, Value, Values};

use super::slots::WHOLE;
use crate::{
    format::{count, quantity},
    plan::Job,
    recipe::{GpuMemory, ResourceCount},
    record::{GpuUse, Identity, Key, without_keys},
    store::{Entry, Measured},
};

/// Parameters that do not change how much memory a job uses, in lower case and with `_`.
pub const NEUTRAL: &[&str] = &[
    "seed",
    "random_seed",
    "lr",
    "learning_rate",
    "min_lr",
    "max_lr",
    "weight_decay",
    "momentum",
    "beta1",
    "beta2",
    "betas",
    "eps",
    "epsilon",
    "iters",
    "steps",
    "epochs",
    "max_iters",
    "max_steps",
    "max_epochs",
    "until",
];

/// Metrics with the memory that a task of the lab has allocated on its device, the widest first.
const ALLOCATED: [&str; 2] = ["memory.device.reserved", "memory.device.peak"];
/// Bytes that a driver needs for a process besides its allocations, if only the allocations are known.
const CONTEXT: u64 = 512 << 20;
/// The smallest margin, in bytes.
const MIN_MARGIN: u64 = 256 << 20;
/// The margin is this part of the estimate.
const MARGIN: u64 = 10;

/// Use of GPU memory by jobs, by their shape.
#[derive(Debug, Clone, Default)]
pub struct GpuHistory(HashMap<Shape, Known>);

/// Digest of everything that may change the memory that a job uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape(blake3::Hash);

/// Uses of memory by jobs of a shape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    /// Records of jobs that were to share a GPU.
    shared: Seen,
    /// All other records. A program that has a GPU for itself may take more of it than it needs.
    other: Seen,
    /// True after a job ran out of memory, until there is a record of a job that did not.
    exhausted: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    /// Number of records with a measurement.
    records: usize,
    /// The largest use, in bytes.
    peak: u64,
    /// True if one of the jobs had run out of memory on a shared GPU before.
    exhausted: bool,
}

/// Estimate for jobs of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// No job of the shape has a known use.
    Unknown,
    /// Some bytes.
    Bytes {
        /// The estimate, with its margin.
        bytes: u64,
        /// The largest use that was seen.
        peak: u64,
        /// Number of records behind the estimate.
        records: usize,
        /// True if one of the jobs had run out of memory on a shared GPU before.
        exhausted: bool,
    },
    /// More than was free on a shared GPU, and nothing has shown how much.
    Whole,
}

impl Estimate {
    /// The estimate in words.
    pub fn describe(&self) -> String {
        let bytes = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        match self {
            Self::Unknown => "not known yet: no earlier job of its shape was measured".to_owned(),
            Self::Bytes { bytes: all, peak, records, .. } => {
                let records = count(*records, "record");
                format!("{}: the peak of {records} of its shape, {}, and a margin", bytes(*all), bytes(*peak))
            }
            Self::Whole => "a whole GPU: an earlier job of its shape ran out of memory on a shared one".to_owned(),
        }
    }
}

impl GpuHistory {
    /// Measurements in records.
    pub fn new(entries: &[Entry], measured: &[Measured]) -> Self {
        let mut history = Self::default();
        let identities: HashMap<Key, &Identity> = entries.iter().map(|entry| (entry.key, &entry.identity)).collect();
        let mut lines: Vec<&Measured> = measured.iter().collect();
        lines.sort_by_key(|line| line.started);
        for line in lines {
            let use_ = line.under.as_ref().and_then(|under| under.gpu);
            let allocated = allocated(&line.metrics);
            if let Some(identity) = identities.get(&line.key)
                && (use_.is_some() || allocated.is_some())
            {
                history.add(shape(identity), use_, allocated);
            }
        }
        history
    }

    /// Adds a record.
    pub(super) fn add(&mut self, shape: Shape, used: Option<GpuUse>, allocated: Option<f64>) {
        let shape_memory = self.0.entry(shape).or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating")]
        let allocated = allocated.map(|bytes| (bytes as u64).saturating_add(CONTEXT));
        let peak = used.and_then(|gpu_use| gpu_use.peak).or(allocated);
        // The reserved memory did not suffice, even if the sampled peak is lower.
        let exhausted = used.and_then(|gpu_use| gpu_use.exhausted);
        shape_memory.exhausted = exhausted.is_some() && peak.is_none();
        let memory =
            if used.is_some_and(|used| used.shares) { &mut shape_memory.shared } else { &mut shape_memory.other };
        if let Some(peak) = peak {
            memory.records += 1;
            memory.exhausted |= exhausted.is_some();
            memory.peak = memory.peak.max(peak).max(exhausted.unwrap_or(0));
        }
    }

    /// A job of this shape has run out of memory on a shared GPU.
    pub(super) fn exhaust(&mut self, shape: Shape) {
        self.0.entry(shape).or_default().exhausted = true;
    }

    /// Estimate for jobs of this shape.
    pub fn estimate(&self, shape: Shape) -> Estimate {
        let Some(shape_memory) = self.0.get(&shape) else { return Estimate::Unknown };
        let memory = if shape_memory.shared.records > 0 { shape_memory.shared } else { shape_memory.other };
        match memory {
            _ if shape_memory.exhausted => Estimate::Whole,
            Seen { records: 0, .. } => Estimate::Unknown,
            Seen { records, peak, exhausted } => {
                let bytes = peak.saturating_add((peak / MARGIN).max(MIN_MARGIN));
                Estimate::Bytes { bytes, peak, records, exhausted }
            }
        }
    }
}

/// The part of a GPU that a job takes, in words; `None` if the job shares no GPU.
pub fn describe(job: &Job, history: &GpuHistory) -> Option<String> {
    if !job.shares_gpu() {
        return None;
    }
    let memory = match job.resources.gpu_memory {
        Some(GpuMemory::Bytes(bytes)) => quantity(bytes as f64, Unit::Bytes),
        Some(GpuMemory::Measured) | None => history.estimate(shape(&job.identity)).describe(),
    };
    let share = job.resources.gpus.and_then(ResourceCount::share);
    let share = share.map(|share| format!("{} of one, ", f64::from(share) / f64::from(WHOLE))).unwrap_or_default();
    Some(format!("{share}memory {memory}"))
}

/// Bytes that a task of the lab has allocated on its device, by its metrics.
pub(super) fn allocated(metrics: &Metrics) -> Option<f64> {
    ALLOCATED.iter().find_map(|name| metrics.get(name)).map(|metric| metric.value)
}

/// The shape of a job: a digest of everything that may change its use of memory.
pub fn shape(identity: &Identity) -> Shape {
    let params = identity.params.iter().filter(|(name, _)| !is_neutral(name));
    let params: Values = params.map(|(name, value)| (name.clone(), of_shape(value))).collect();
    let Identity { task, revision, backend, inputs, .. } = identity;
    // Text keys and numbers: this cannot fail.
    let text = serde_json::to_vec(&(task, revision, backend, params, inputs)).unwrap_or_default();
    Shape(blake3::hash(&text))
}

fn is_neutral(name: &str) -> bool {
    let name = name.trim_start_matches('-').replace('-', "_").to_lowercase();
    NEUTRAL.contains(&name.as_str())
}

/// A value without the neutral parameters in it.
fn of_shape(value: &Value) -> Value {
    match value {
        Value::Text(text) => Value::Text(of_words(without_keys(text).split_whitespace())),
        Value::List(items) => match items.iter().map(Value::as_text).collect::<Option<Vec<&str>>>() {
            Some(words) => {
                let words: Vec<String> = words.into_iter().map(without_keys).collect();
                Value::Text(of_words(words.iter().map(String::as_str)))
            }
            None => Value::List(items.iter().map(of_shape).collect()),
        },
        Value::Map(map) => {
            let entries = map.iter().filter(|(name, _)| !is_neutral(name));
            Value::Map(entries.map(|(name, value)| (name.clone(), of_shape(value))).collect())
        }
        other => other.clone(),
    }
}

/// Words without `seed=1`, `--seed=1` and `--seed 1`.
fn of_words<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut words_of_shape: Vec<&str> = Vec::new();
    let mut is_value = false;
    for word in words {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let neutral = is_neutral(name);
        if !std::mem::take(&mut is_value) && !(neutral && (value.is_some() || name.starts_with('-'))) {
            words_of_shape.push(word);
        }
        is_value = neutral && value.is_none() && name.starts_with('-');
    }
    words_of_shape.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sweep_job::{Task, TaskInfo};

    use super::*;
    use crate::record::Needed;

    fn command(params: &[(&str, Value)]) -> Identity {
        let task: &TaskInfo = Task::info("command").unwrap();
        let given = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Identity::new(task, &task.complete(given), None, BTreeMap::new(), Needed::default())
    }

    fn run(text: &str) -> Shape {
        shape(&command(&[("run", Value::Text(text.to_owned()))]))
    }

    #[test]
    fn what_cannot_change_the_use_of_memory_is_not_in_the_shape() {
        let base = run("python train.py --batch 8 --seed 1 --lr=0.1");
        for same in [
            "python train.py --batch 8 --seed 2 --lr=0.1",
            "python train.py --batch 8 --seed=2 --lr 0.3",
            "python  train.py --batch 8",
            "python train.py --batch 8 seed=4 --weight-decay 0.1",
        ] {
            assert_eq!(run(same), base, "{same}");
        }
        for other in ["python train.py --batch 16", "python other.py --batch 8", "python train.py --batch 8 seed 1"] {
            assert_ne!(run(other), base, "{other}");
        }
        let texts = |words: &[&str]| Value::List(words.iter().map(|word| Value::Text((*word).to_owned())).collect());
        let argv = |words: &[&str]| shape(&command(&[("argv", texts(words))]));
        assert_eq!(argv(&["train", "--seed", "1", "--width", "2"]), argv(&["train", "--seed", "9", "--width", "2"]));
        assert_ne!(argv(&["train", "--seed", "1", "--width", "2"]), argv(&["train", "--seed", "1", "--width", "4"]));
        let key = |digit: &str| format!("${{{{{}.artifacts.model}}}}", digit.repeat(64));
        assert_eq!(run(&key("1")), run(&key("2")), "the same product of another job");
        let seeds = |seed| shape(&command(&[("run", Value::Text("x".into())), ("seed", Value::Int(seed))]));
        assert_eq!(seeds(1), seeds(2));
    }

    #[test]
    fn estimates_have_a_margin_and_follow_what_was_seen() {
        let (shape, mut history) = (run("x"), GpuHistory::default());
        assert_eq!(history.estimate(shape), Estimate::Unknown);
        let gpu_use =
            |shares, peak, exhausted| Some(GpuUse { devices: 1, share: 0.5, shares, reserved: None, peak, exhausted });
        let bytes = |history: &GpuHistory| match history.estimate(shape) {
            Estimate::Bytes { bytes, .. } => bytes,
            other => panic!("{other:?}"),
        };
        history.add(shape, gpu_use(false, Some(70 << 30), None), None);
        assert_eq!(bytes(&history), 77 << 30, "a tenth more");
        history.add(shape, gpu_use(true, Some(1 << 30), None), None);
        assert_eq!(bytes(&history), (1 << 30) + (256 << 20), "of those that were to share, and at least 256 MiB more");
        history.exhaust(shape);
        assert_eq!(history.estimate(shape), Estimate::Whole);
        history.add(shape, gpu_use(true, Some(1 << 30), Some(5 << 30)), None);
        assert_eq!(bytes(&history), (5 << 30) + (512 << 20), "5 GiB did not suffice, whatever was sampled");
        history.add(shape, gpu_use(true, None, Some(6 << 30)), None);
        assert_eq!(history.estimate(shape), Estimate::Whole, "how much suffices was not seen");
        // The lab reports the memory that it has allocated.
        let mut lab = GpuHistory::default();
        lab.add(shape, None, Some(3e9));
        assert_eq!(bytes(&lab), 3_000_000_000 + CONTEXT + (3_000_000_000 + CONTEXT) / 10);
    }
}
