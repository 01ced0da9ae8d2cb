//! The attempts at a training: the work and resources of each. They are kept beside the checkpoints, in an append-only
//! file, so that a result includes attempts that were killed.
//!
//! A line is a state of an attempt, and its last line is the latest known one. An attempt writes a line when it begins,
//! at its checkpoints, and at log points at least a second apart; the work of a killed attempt after its last line is
//! unknown. Work that another job has left is attempt 0.

use std::{
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use sweep_job::{Outcome, tasks::Train};

use super::Done;
use crate::measure;

/// The file in the job's scratch folder.
const FILE: &str = "attempts.jsonl";
/// The least time between two signs at log points.
const BETWEEN: Duration = Duration::from_secs(1);

/// State of an attempt at some point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Sign {
    /// Number of the attempt, from 1; 0 for another job.
    attempt: usize,
    /// The iteration after which it resumed.
    from: usize,
    /// Iterations done, earlier attempts' included.
    done: usize,
    /// Time of its loop, in seconds.
    seconds: f64,
    /// Time of its first step, in seconds; 0 before its end.
    first_step: f64,
    /// The largest resident memory of the attempt's process, in bytes, where the system reports it.
    peak: Option<f64>,
}

/// All attempts, of which the last is under way.
#[derive(Debug)]
pub(super) struct Attempts {
    /// The last sign of each earlier attempt.
    earlier: Vec<Sign>,
    now: Sign,
    /// `None` if it cannot be written: a later attempt then does not know this attempt, which does not justify a failure.
    file: Option<fs::File>,
    signed: Instant,
}

impl Attempts {
    /// A further attempt, which resumes after iteration `from`, at the job whose scratch folder is `scratch`. `other_work` is the work of
    /// another job from whose state this one starts.
    pub(super) fn begin(scratch: &Path, from: usize, other_work: Option<Done>) -> Self {
        let path = scratch.join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let earlier = last_signs(&text);
        let attempt = earlier.last().map_or(0, |last| last.attempt) + 1;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).ok();
        if !text.is_empty() && !text.ends_with('\n') {
            // Its last line was torn.
            file = file.filter(|mut file| file.write_all(b"\n").is_ok());
        }
        let now = Sign { attempt, from, done: from, seconds: 0.0, first_step: 0.0, peak: None };
        let mut attempts = Self { earlier, now, file, signed: Instant::now() };
        if let Some(other_work) = other_work.filter(|_| attempts.earlier.is_empty()) {
            let sign = Sign { attempt: 0, from: 0, done: from, seconds: other_work.seconds, ..now };
            attempts.write(&sign);
            attempts.earlier.push(sign);
        }
        attempts.sign(from, Duration::ZERO);
        attempts
    }

    /// Records that the first step of this attempt took `time`.
    pub(super) fn first_step(&mut self, time: Duration) {
        self.now.first_step = time.as_secs_f64();
    }

    /// A sign after `done` iterations and `time` in the loop.
    pub(super) fn sign(&mut self, done: usize, time: Duration) {
        self.now = Sign { done, seconds: time.as_secs_f64(), peak: measure::peak_memory(), ..self.now };
        self.signed = Instant::now();
        let sign = self.now;
        self.write(&sign);
    }

    fn write(&mut self, sign: &Sign) {
        let Ok(mut line) = serde_json::to_vec(sign) else { return };
        line.push(b'\n');
        self.file = self.file.take().filter(|mut file| file.write_all(&line).is_ok());
    }

    /// Writes a sign like [`sign`](Self::sign), unless the last one is recent.
    pub(super) fn sign_now_and_then(&mut self, done: usize, time: Duration) {
        if self.signed.elapsed() >= BETWEEN {
            self.sign(done, time);
        }
    }

    /// Adds the number of attempts, and the lost time of the earlier ones, of which `counted_seconds` are in the result;
    /// with several attempts, also the work of each.
    pub(super) fn describe(&self, outcome: &mut Outcome, counted_seconds: f64) {
        let earlier_seconds: f64 = self.earlier.iter().map(|sign| sign.seconds).sum();
        outcome.set(&Train::ATTEMPTS, self.now.attempt as f64);
        outcome.set(&Train::TIME_LOST, (earlier_seconds - counted_seconds).max(0.0));
        let (other_jobs, attempts): (Vec<Sign>, Vec<Sign>) =
            self.earlier.iter().copied().partition(|sign| sign.attempt == 0);
        for Sign { done, seconds, .. } in other_jobs {
            let text = format!("iterations 0 to {done} are those of another job, in {seconds:.1} s");
            outcome.facts.insert("started".into(), text);
        }
        if attempts.is_empty() {
            return;
        }
        for Sign { attempt, from, done, seconds, first_step, peak } in attempts.iter().chain([&self.now]) {
            let memory = peak.map_or_else(String::new, |peak| format!(", {:.0} MB at most", peak / 1e6));
            let text =
                format!("iterations {from} to {done} in {seconds:.1} s, the first step in {first_step:.3} s{memory}");
            outcome.facts.insert(format!("attempt.{attempt}"), text);
        }
    }

    /// Returns the largest resident memory of all attempts so far, in bytes, where the system reports it.
    pub(super) fn peak(&self) -> Option<f64> {
        let current_peak = measure::peak_memory()?;
        Some(self.earlier.iter().filter_map(|sign| sign.peak).fold(current_peak, f64::max))
    }
}

/// The last sign of each attempt, in their order. Lines that are torn or make no sense are left out.
fn last_signs(text: &str) -> Vec<Sign> {
    let mut signs: Vec<Sign> = Vec::new();
    for sign in text.lines().filter_map(|line| serde_json::from_str::<Sign>(line).ok()) {
        let times = [sign.seconds, sign.first_step];
        let is_possible = times.into_iter().all(|seconds| Duration::try_from_secs_f64(seconds).is_ok())
            && sign.peak.is_none_or(|peak| peak.is_finite() && peak >= 0.0);
        match signs.last_mut() {
            _ if !is_possible => {}
            Some(last) if last.attempt == sign.attempt => *last = sign,
            Some(last) if last.attempt > sign.attempt => {}
            _ => signs.push(sign),
        }
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_and_impossible_lines_are_left_out() {
        let sign = |attempt, done, seconds| Sign { attempt, from: 0, done, seconds, first_step: 0.0, peak: Some(1e6) };
        let line = |sign: &Sign| serde_json::to_string(sign).unwrap();
        let lines = [sign(1, 0, 0.0), sign(1, 20, 2.5), sign(1, 30, -1.0), sign(2, 20, 0.0), sign(1, 90, 9.0)]
            .map(|s| line(&s));
        let fragment = &line(&sign(2, 40, 1.0))[..20];
        let text = format!("{}\n\nno line\n{fragment}", lines.join("\n"));
        assert_eq!(last_signs(&text), [sign(1, 20, 2.5), sign(2, 20, 0.0)]);
    }

    #[test]
    fn what_was_lost_is_what_no_checkpoint_has() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Attempts::begin(folder.path(), 0, None);
        first.sign(10, Duration::from_secs(4));
        first.sign(14, Duration::from_secs(6));
        let mut second = Attempts::begin(folder.path(), 10, None);
        second.sign(20, Duration::from_secs(3));
        // It resumes after iteration 20, whose checkpoint has 4 s of the first attempt and 3 s of the second.
        let mut outcome = Outcome::default();
        Attempts::begin(folder.path(), 20, None).describe(&mut outcome, 7.0);
        assert_eq!((outcome.metrics["attempts"].value, outcome.metrics["time.lost"].value), (3.0, 2.0));
        assert!(outcome.facts["attempt.1"].starts_with("iterations 0 to 14 in 6.0 s"), "{:?}", outcome.facts);
        // It starts from the beginning, because no checkpoint can be used.
        let mut outcome = Outcome::default();
        Attempts::begin(folder.path(), 0, None).describe(&mut outcome, 0.0);
        assert_eq!((outcome.metrics["attempts"].value, outcome.metrics["time.lost"].value), (4.0, 9.0));
    }
}
