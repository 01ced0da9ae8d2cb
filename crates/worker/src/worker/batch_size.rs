//! `uses: bench/batch-size`: a training for each batch size, in a separate worker process, which may run out of memory.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{self, ExitStatus, Stdio},
    thread,
};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use sweep_job::{
    Curve, Failure, FailureKind, Job, Message, Outcome, Progress, Report, Task, Value,
    tasks::{BatchSize, LoopMetrics, Train},
};

use super::{Channel, Run};
use crate::host::{machine::OutOfMemory, program};

/// Number of last lines of a process that are kept.
const LAST_WORDS: usize = 200;

/// Result of one batch size.
enum Tried {
    /// A training with this batch size succeeded.
    Fits(Box<Outcome>),
    /// A training with this batch size needs more memory than is available.
    TooLarge(String),
}

/// A batch size that fits.
struct Point {
    batch: usize,
    tokens_per_s: f64,
    outcome: Outcome,
}

impl Run for BatchSize {
    fn run(&self, job: &Job, channel: &mut Channel) -> Result<Outcome, Failure> {
        sizes_up_to_the_last(self, job, channel)
    }
}

/// Tries one size after the other, until one does not fit or brings nothing.
fn sizes_up_to_the_last(bench: &BatchSize, job: &Job, report: &mut dyn Report) -> Result<Outcome, Failure> {
    let sizes = &bench.sizes;
    let steps = std::iter::successors(Some(sizes.first), |batch| batch.checked_mul(sizes.factor));
    let batches: Vec<usize> = steps.take_while(|batch| *batch <= sizes.last).collect();
    let mut points: Vec<Point> = Vec::new();
    let mut knee = None;
    let mut stop_reason = format!("`last`: {} is the largest requested batch size", sizes.last);
    for (index, &batch) in batches.iter().enumerate() {
        let progress = Progress { done: index as u64, total: batches.len() as u64, ..Progress::default() };
        report.progress(progress);
        let outcome = match train(bench, job, batch)? {
            Tried::Fits(outcome) => *outcome,
            Tried::TooLarge(message) if points.is_empty() => {
                return Err(Failure { kind: FailureKind::Memory, message });
            }
            Tried::TooLarge(message) => {
                stop_reason = format!("memory: a batch of {batch} does not fit ({message})");
                break;
            }
        };
        let tokens_per_s = outcome.value(&Train::TOKENS_PER_S).unwrap_or(f64::NAN);
        if !tokens_per_s.is_finite() {
            let message = format!("the training with a batch of {batch} did not measure its throughput");
            return Err(Failure { kind: FailureKind::Experiment, message });
        }
        let gain = points.last().map(|previous_point| tokens_per_s / previous_point.tokens_per_s - 1.0);
        points.push(Point { batch, tokens_per_s, outcome });
        if let Some(gain) = gain.filter(|gain| *gain < sizes.min_gain) {
            knee = Some(points.len() - 2);
            let percent = gain * 100.0;
            stop_reason =
                format!("throughput: a batch of {batch} changes throughput by {percent:+.1} % over the previous one");
            break;
        }
    }
    Ok(describe(&points, knee.unwrap_or(points.len().saturating_sub(1)), stop_reason))
}

/// The result, where `knee` is the place of the knee among the points.
fn describe(points: &[Point], knee: usize, stop_reason: String) -> Outcome {
    let mut outcome = Outcome::default();
    let (Some(first), Some(last), Some(knee_point)) = (points.first(), points.last(), points.get(knee)) else {
        return outcome;
    };
    outcome.set(&BatchSize::KNEE, knee_point.batch as f64);
    outcome.set(&BatchSize::LARGEST, last.batch as f64);
    outcome.set(&BatchSize::TOKENS_PER_S, knee_point.tokens_per_s);
    outcome.set(&BatchSize::GAIN, knee_point.tokens_per_s / first.tokens_per_s);
    for metric in [&BatchSize::MEMORY_PEAK, &BatchSize::MEMORY_DEVICE_PEAK] {
        let fact_name = format!("absent.{}", metric.name);
        if let Some(value) = knee_point.outcome.value(metric) {
            outcome.set(metric, value);
        } else if let Some(reason) = knee_point.outcome.facts.get(&fact_name) {
            outcome.facts.insert(fact_name, reason.clone());
        }
    }
    for (curve, metric) in [
        ("tokens_per_s", Train::TOKENS_PER_S),
        ("step", LoopMetrics::TIME_STEP),
        ("memory", Train::MEMORY_PEAK),
        ("device_memory", Train::MEMORY_DEVICE_PEAK),
    ] {
        let measurements = points.iter().filter_map(|point| Some((point.batch as u64, point.outcome.value(&metric)?)));
        let (at, values): (Vec<_>, Vec<_>) = measurements.unzip();
        if !at.is_empty() {
            outcome.curves.insert(curve.to_owned(), Curve { unit: metric.unit, at, values });
        }
    }
    outcome.facts.insert("stopped by".into(), stop_reason);
    outcome
}

/// Trains with one batch size, in a separate process.
fn train(bench: &BatchSize, job: &Job, batch: usize) -> Result<Tried, Failure> {
    let process_failure = |error: io::Error| Failure {
        kind: FailureKind::Crash,
        message: format!("the process for a batch of {batch} cannot be run: {error}"),
    };
    let training = training(bench, job, batch);
    std::fs::create_dir_all(&training.scratch).map_err(process_failure)?;
    let line = serde_json::to_vec(&training).map_err(|error| process_failure(error.into()))?;
    let memory = OutOfMemory::now();
    let mut child = process::Command::new(program().map_err(process_failure)?)
        .args(["worker", "--engine", &process::id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(process_failure)?;
    // The process does nothing before it gets its job, so the limit is set in time.
    if let (Some(max_bytes), Some(pid)) = (bench.sizes.memory, Pid::from_raw(child.id().cast_signed())) {
        let max_bytes = Some(max_bytes as u64);
        let limit = Rlimit { current: max_bytes, maximum: max_bytes };
        prlimit(Some(pid), Resource::Data, limit).map_err(|error| process_failure(error.into()))?;
    }
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let words = thread::Builder::new().spawn(move || stderr.map_or_else(String::new, last_words));
    let words = words.map_err(|error| {
        let _ = child.kill();
        let _ = child.wait();
        process_failure(error)
    })?;
    if let Some(mut stdin) = stdin {
        // A process that cannot read its job any more has reported its end.
        let _ = stdin.write_all(&line).and_then(|()| stdin.write_all(b"\n"));
    }
    let mut result = None;
    let mut text = String::new();
    if let Some(mut stdout) = stdout {
        stdout.read_to_string(&mut text).map_err(process_failure)?;
    }
    for message in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match message {
            Message::Done(outcome) => result = Some(Ok(outcome)),
            Message::Failed(failure) => result = Some(Err(failure)),
            Message::Progress(_)
            | Message::Note(_)
            | Message::Alive
            | Message::Observed(_)
            | Message::Agreed(_)
            | Message::Idle => {}
        }
    }
    let status = child.wait().map_err(process_failure)?;
    let words = words.join().unwrap_or_default();
    match result {
        Some(Ok(outcome)) => Ok(Tried::Fits(Box::new(outcome))),
        Some(Err(failure)) => judge(failure, batch),
        None => judge(silent(status, &words, OutOfMemory::now().since(memory)), batch),
    }
}

/// True if a failure was caused by lack of memory.
fn judge(failure: Failure, batch: usize) -> Result<Tried, Failure> {
    let Failure { kind, message } = failure.recognized();
    match kind {
        FailureKind::Memory => Ok(Tried::TooLarge(message)),
        kind => Err(Failure { kind, message: format!("with a batch of {batch}: {message}") }),
    }
}

/// Reason why a process has ended without a message to its reader.
fn silent(status: ExitStatus, words: &str, out_of_memory: Option<bool>) -> Failure {
    // The kernel kills processes with SIGKILL when memory runs out, and nothing else does that here.
    if status.signal() == Some(9) && out_of_memory != Some(false) {
        return Failure { kind: FailureKind::Memory, message: "the kernel killed it for lack of memory".into() };
    }
    let crash = |line: &str| Failure { kind: FailureKind::Crash, message: line.to_owned() }.recognized();
    // A backtrace may follow the reason; it is indented except for its title and its last line.
    let is_telling = |line: &&str| !line.is_empty() && !line.starts_with([' ', '\t']) && !line.starts_with("note: ");
    let telling_lines = || words.lines().filter(is_telling).filter(|line| !line.starts_with("stack backtrace"));
    let memory = telling_lines().rev().map(crash).find(|failure| failure.kind == FailureKind::Memory);
    let failure = memory.unwrap_or_else(|| crash(telling_lines().next_back().unwrap_or_default()));
    Failure { message: format!("{status}: {}", failure.message), ..failure }
}

/// Copies the stderr of a child process to this process's log, and returns its last lines.
fn last_words(stderr: process::ChildStderr) -> String {
    let mut last = VecDeque::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        eprintln!("{line}");
        last.push_back(line);
        if last.len() > LAST_WORDS {
            last.pop_front();
        }
    }
    Vec::from(last).join("\n")
}

/// The training at one batch size, as a worker gets it.
fn training(bench: &BatchSize, job: &Job, batch: usize) -> Job {
    let mut params = job.params.clone();
    let iters = Value::Int(i64::try_from(bench.sizes.iters).unwrap_or(i64::MAX));
    let size = Value::Int(i64::try_from(batch).unwrap_or(i64::MAX));
    if let Some(train) = Task::info("train") {
        params.retain(|name, _| train.param(name).is_some());
        // The held-out loss is not needed.
        let overrides =
            [("batch_size", size), ("iters", iters.clone()), ("log_every", iters), ("eval_batches", Value::Int(1))];
        params.extend(overrides.map(|(name, value)| (name.to_owned(), value)));
        params = train.complete(params);
    }
    // A separate folder, because a training with another batch size is not an earlier attempt at this training.
    let scratch = job.scratch.join(format!("batch-{batch}"));
    Job { task: "train".into(), params, heartbeat: None, scratch, ..job.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(batch: usize, tokens_per_s: f64) -> Point {
        let mut outcome = Outcome::default();
        outcome.set(&BatchSize::TOKENS_PER_S, tokens_per_s);
        outcome.set(&BatchSize::MEMORY_PEAK, batch as f64 * 1024.0);
        Point { batch, tokens_per_s, outcome }
    }

    #[test]
    fn curves_are_by_batch_size() {
        let points = [point(1, 100.0), point(2, 190.0), point(4, 195.0)];
        let outcome = describe(&points, 1, "throughput".into());
        assert_eq!(outcome.metrics["batch.knee"].value, 2.0);
        assert_eq!(outcome.metrics["batch.largest"].value, 4.0);
        assert_eq!(outcome.metrics["throughput.gain"].value, 1.9);
        assert_eq!(outcome.metrics["memory.peak"].value, 2048.0);
        assert_eq!(outcome.curves["tokens_per_s"].at, [1, 2, 4]);
        assert_eq!(outcome.curves["tokens_per_s"].values, [100.0, 190.0, 195.0]);
        assert!(!outcome.curves.contains_key("device_memory"), "what nobody measured is absent");
    }

    #[test]
    fn an_abort_for_want_of_memory_is_told_from_others() {
        let abort_status = ExitStatus::from_raw(6);
        let words = "thread started\nmemory allocation of 268435456 bytes failed\n";
        assert_eq!(silent(abort_status, words, Some(false)).kind, FailureKind::Memory);
        let traced_words = format!(
            "{words}stack backtrace:\n   0: main\n             at ./main.rs:1\nnote: Some details are omitted\n"
        );
        let failure = silent(abort_status, &traced_words, Some(false));
        assert_eq!(failure.kind, FailureKind::Memory);
        assert!(failure.message.ends_with("memory allocation of 268435456 bytes failed"), "{failure}");
        let failure = silent(abort_status, "assertion failed\nstack backtrace:\n   0: main\n", Some(false));
        assert_eq!(failure.kind, FailureKind::Crash);
        assert!(failure.message.ends_with("assertion failed"), "{failure}");
        assert_eq!(silent(ExitStatus::from_raw(9), "", Some(true)).kind, FailureKind::Memory);
        assert_eq!(silent(ExitStatus::from_raw(9), "", Some(false)).kind, FailureKind::Crash);
    }
}
