//! The first steps of a program, compared bit for bit with the first steps of an earlier run while the program runs.
//!
//! Curves are compared from their first points up to the newest step that the program has reported, which is at least the step of the
//! trial. The newest step may be incomplete, so it decides only if it is the step of the trial.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sweep_job::{Agreement, Beginning, Curve, Task, TaskSpec as _, Trial, tasks::Command};

use super::{program, report::Checkpoint};
use crate::{
    format::clean,
    record::{self, depends_on_machine},
    run::{ABOUT, MIN_THINNED_POINTS, Scratch},
};

/// Time for a program to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// The comparison of a program with an earlier run.
pub(super) struct Comparison {
    trial: Trial,
    scratch: Scratch,
    folder: PathBuf,
    /// The digests of this program's checkpoints, by their steps.
    states: BTreeMap<u64, String>,
    /// The curves at the first moment at which they went beyond the step of the trial.
    first: Option<BTreeMap<String, Curve>>,
    /// The names of the curves that had all of their points at that moment. Curves of a resumed program, or of a program that reports all
    /// values at its end, may have been thinned out before.
    whole: BTreeSet<String>,
    state: State,
}

/// State of a comparison.
#[derive(Debug, PartialEq)]
enum State {
    /// Nothing is decided.
    Open,
    /// There is nothing to compare, or something differs.
    Closed,
    /// All is equal; the time at which SIGTERM was sent.
    Agreed(Agreement, Instant),
}

/// Result of a comparison so far.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// More points are needed.
    Open,
    /// All is equal.
    Equal(Agreement),
    /// Something differs, as a phrase.
    Different(String),
}

impl Comparison {
    /// The comparison of a job with this scratch folder.
    pub(super) fn new(trial: &Trial, scratch: &Path) -> Self {
        let state = if trial.earlier.is_some() { State::Open } else { State::Closed };
        let (trial, folder) = (trial.clone(), scratch.to_owned());
        let (states, whole) = (BTreeMap::new(), BTreeSet::new());
        Self { trial, scratch: Scratch::new(scratch), folder, states, first: None, whole, state }
    }

    /// Compares the curves so far, and ends the program if its first steps equal the earlier run's. Returns a notice if they differ.
    pub(super) fn look(
        &mut self,
        checkpoints: &[Checkpoint],
        curves: impl FnOnce() -> BTreeMap<String, Curve>,
    ) -> Option<String> {
        if let State::Agreed(_, since) = &self.state {
            if since.elapsed() >= GRACE {
                program::kill();
            }
            return None;
        }
        self.add_states(checkpoints);
        if self.state == State::Closed && self.first.is_some() {
            return None;
        }
        let curves: BTreeMap<String, Curve> =
            curves().into_iter().filter(|(name, curve)| is_compared(name, curve)).collect();
        if self.first.is_none() && newest(&curves).is_some_and(|step| step > self.trial.after) {
            self.first = Some(until(&curves, self.trial.after));
            let whole = curves.iter().filter(|(_, curve)| curve.at.len() < MIN_THINNED_POINTS);
            self.whole = whole.map(|(name, _)| name.clone()).collect();
        }
        let earlier = self.trial.earlier.as_ref().filter(|_| self.state == State::Open)?;
        match compare(earlier, &curves, &self.states, self.trial.after) {
            Verdict::Open => None,
            Verdict::Equal(agreement) => {
                self.state = State::Agreed(agreement, Instant::now());
                program::terminate();
                None
            }
            Verdict::Different(how) => {
                self.state = State::Closed;
                Some(format!("the earlier result is not adopted, and the program runs to its end: {how}"))
            }
        }
    }

    /// The agreement, if the program was ended because of it.
    pub(super) fn agreed(&self) -> Option<&Agreement> {
        if let State::Agreed(agreement, _) = &self.state { Some(agreement) } else { None }
    }

    /// A notice if the program has ended before the comparison was decided.
    pub(super) fn silence(&self) -> Option<String> {
        let after = self.trial.after;
        let text = || {
            format!(
                "the earlier result is not adopted, and the program ran to its end: it did not report all values and checkpoints \
                 of the earlier run up to step {after}, or ended too soon after them"
            )
        };
        (self.state == State::Open).then(text)
    }

    /// The first steps for the record of a program with these curves.
    pub(super) fn beginning(self, curves: &BTreeMap<String, Curve>) -> Beginning {
        let mut first = self.first.unwrap_or_default();
        let as_recorded = until(curves, self.trial.after);
        first.retain(|name, curve| as_recorded.get(name) != Some(curve));
        let is_short = |name: &str| curves.get(name).is_some_and(|curve| curve.at.len() < MIN_THINNED_POINTS);
        let whole = self.whole.into_iter().filter(|name| first.contains_key(name) || !is_short(name));
        let complete = whole.map(|name| (name, self.trial.after)).collect();
        Beginning { after: self.trial.after, curves: first, states: self.states, complete }
    }

    /// Digests the new checkpoints of the first steps. A checkpoint that cannot be read has no digest.
    fn add_states(&mut self, checkpoints: &[Checkpoint]) {
        for checkpoint in checkpoints {
            let Some(step) = checkpoint.step.filter(|step| *step <= self.trial.after) else { continue };
            if self.states.contains_key(&step) {
                continue;
            }
            let Some(path) = self.scratch.inside(&checkpoint.path) else { continue };
            if let Ok(digest) = digest(&self.folder.join(path)) {
                self.states.insert(step, digest);
            }
        }
    }
}

/// The digest of a checkpoint: of a file, or of all files of a folder except the file that the Python module adds.
fn digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    if path.is_dir() {
        let files = record::of_folder(path)?;
        for (name, file) in files.iter().filter(|(name, _)| *name != ABOUT) {
            hasher.update(&serde_json::to_vec(&(name, file))?);
        }
    } else {
        hasher.update_reader(File::open(path)?)?;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// True for a curve that an equal program repeats: times, rates and memory depend on the machine.
fn is_compared(name: &str, curve: &Curve) -> bool {
    !depends_on_machine(Task::info(Command::NAME), name, curve.unit)
}

/// The largest step of some curves.
fn newest(curves: &BTreeMap<String, Curve>) -> Option<u64> {
    curves.values().filter_map(|curve| curve.at.last().copied()).max()
}

/// The points of curves up to a step. A curve without such points is left out.
fn until(curves: &BTreeMap<String, Curve>, step: u64) -> BTreeMap<String, Curve> {
    let cut = |curve: &Curve| {
        let count = curve.at.partition_point(|at| *at <= step);
        Curve { unit: curve.unit, at: curve.at[..count].to_vec(), values: curve.values[..count].to_vec() }
    };
    curves.iter().map(|(name, curve)| (name.clone(), cut(curve))).filter(|(_, curve)| !curve.at.is_empty()).collect()
}

/// Compares the curves and checkpoints of a program with an earlier run.
fn compare(
    earlier: &Beginning,
    curves: &BTreeMap<String, Curve>,
    states: &BTreeMap<u64, String>,
    after: u64,
) -> Verdict {
    let Some(reached) = newest(curves) else { return Verdict::Open };
    let mut is_open = reached < after;
    let mut values = BTreeMap::new();
    let both = earlier.curves.iter().chain(curves);
    let names: BTreeSet<&String> =
        both.filter(|(name, curve)| is_compared(name, curve)).map(|(name, _)| name).collect();
    for name in names {
        let pair = Pair {
            then: earlier.curves.get(name),
            now: curves.get(name),
            complete: earlier.complete.get(name).copied().unwrap_or(u64::MAX),
        };
        match pair.compare(reached, after) {
            Ok((count, is_pending)) => {
                is_open |= is_pending;
                if count > 0 {
                    values.insert(name.clone(), count);
                }
            }
            Err(step) => return Verdict::Different(format!("`{}` differs at step {step}", clean(name))),
        }
    }
    let mut equal = Vec::new();
    for (step, digest) in earlier.states.iter().filter(|(step, _)| **step <= after) {
        match states.get(step) {
            Some(now) if now == digest => equal.push(*step),
            Some(_) => return Verdict::Different(format!("the state at step {step} differs")),
            None => is_open = true,
        }
    }
    if is_open || values.is_empty() {
        return Verdict::Open;
    }
    Verdict::Equal(Agreement { step: reached, values, states: equal })
}

/// A curve of an earlier run and of this one.
struct Pair<'a> {
    then: Option<&'a Curve>,
    now: Option<&'a Curve>,
    /// The last step up to which the earlier curve has all of its points.
    complete: u64,
}

impl Pair<'_> {
    /// Compares the points up to the step that was `reached`. Returns the number of equal values, and true if points are still
    /// to come; the error is the first step that differs.
    fn compare(&self, reached: u64, after: u64) -> Result<(usize, bool), u64> {
        let points = |curve: Option<&Curve>| -> BTreeMap<u64, u64> {
            let points = curve.iter().flat_map(|curve| curve.at.iter().copied().zip(curve.values.iter()));
            points.map(|(step, value)| (step, value.to_bits())).take_while(|(step, _)| *step <= reached).collect()
        };
        let (then, now) = (points(self.then), points(self.now));
        let steps: BTreeSet<u64> = then.keys().chain(now.keys()).copied().collect();
        let (mut count, mut is_open) = (0, false);
        for step in steps {
            let is_newest = step == reached;
            match (then.get(&step), now.get(&step)) {
                (Some(then), Some(now)) if then == now => count += 1,
                (Some(_), None) if is_newest && step > after => {}
                (Some(_), None) => is_open = true,
                (None, Some(_)) if step > self.complete => {}
                // The newest step may get further values.
                (_, Some(_)) if is_newest => is_open = true,
                _ => return Err(step),
            }
        }
        is_open |= self.next(after).is_some_and(|next| !now.contains_key(&next));
        Ok((count, is_open))
    }

    /// The first step of the earlier curve from `after` on, if the curve begins before it. Values before the first update are equal for
    /// every edit, so they do not suffice for a rarely reported curve.
    fn next(&self, after: u64) -> Option<u64> {
        let steps = &self.then?.at;
        steps.first().filter(|first| **first < after)?;
        steps.iter().copied().find(|step| *step >= after)
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::Unit;

    use super::*;

    fn curves(all: &[(&str, &[(u64, f64)])]) -> BTreeMap<String, Curve> {
        let curve = |points: &[(u64, f64)]| {
            let (at, values) = points.iter().copied().unzip();
            Curve { unit: Unit::One, at, values }
        };
        all.iter().map(|(name, points)| ((*name).to_owned(), curve(points))).collect()
    }

    fn verdict(then: &[(&str, &[(u64, f64)])], now: &[(&str, &[(u64, f64)])]) -> Verdict {
        let earlier = Beginning { curves: curves(then), ..Beginning::default() };
        compare(&earlier, &curves(now), &BTreeMap::new(), 2)
    }

    const LOSS: (&str, &[(u64, f64)]) = ("loss", &[(0, 3.0), (1, 2.0), (2, 1.5), (3, 1.25), (4, 1.0)]);

    fn equal(step: u64, values: &[(&str, usize)]) -> Verdict {
        let values = values.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Verdict::Equal(Agreement { step, values, states: Vec::new() })
    }

    fn different(how: &str) -> Verdict {
        Verdict::Different(how.to_owned())
    }

    #[test]
    fn equal_points_up_to_the_step_agree_and_fewer_do_not() {
        assert_eq!(verdict(&[LOSS], &[]), Verdict::Open);
        assert_eq!(verdict(&[LOSS], &[("loss", &[(0, 3.0), (1, 2.0)])]), Verdict::Open);
        assert_eq!(verdict(&[LOSS], &[("loss", &[(0, 3.0), (1, 2.0), (2, 1.5)])]), equal(2, &[("loss", 3)]));
        assert_eq!(verdict(&[LOSS], &[LOSS]), equal(4, &[("loss", 5)]));
    }

    #[test]
    fn a_difference_in_one_bit_counts() {
        let next = 2.0_f64.next_up();
        assert_eq!(
            verdict(&[LOSS], &[("loss", &[(0, 3.0), (1, next), (2, 1.5)])]),
            different("`loss` differs at step 1")
        );
        let zero = [("a", &[(0, 0.0), (2, 1.0)][..])];
        assert_eq!(verdict(&zero, &[("a", &[(0, -0.0), (2, 1.0)])]), different("`a` differs at step 0"));
        // Points beyond the step of the trial count, too, if they are there.
        assert_eq!(
            verdict(&[LOSS], &[("loss", &[(0, 3.0), (1, 2.0), (2, 1.5), (3, 9.0), (4, 1.0)])]),
            different("`loss` differs at step 3")
        );
    }

    #[test]
    fn a_curve_that_is_reported_rarely_is_compared_at_its_next_step() {
        let then: [(&str, &[(u64, f64)]); 1] = [("loss", &[(0, 3.0), (100, 2.0), (200, 1.0)])];
        assert_eq!(verdict(&then, &[("loss", &[(0, 3.0)])]), Verdict::Open, "the first value is that of every edit");
        assert_eq!(
            verdict(&then, &[("loss", &[(0, 3.0), (100, 2.5), (200, 1.0)])]),
            different("`loss` differs at step 100")
        );
        assert_eq!(verdict(&then, &[("loss", &[(0, 3.0), (100, 2.0)])]), equal(100, &[("loss", 2)]));
        // A curve with every step does not decide for it.
        let rate: Vec<(u64, f64)> = (0..=200).map(|step| (step, 0.1)).collect();
        let then = [then[0], ("rate", &rate[..])];
        let at = |count: usize, loss| verdict(&then, &[("loss", loss), ("rate", &rate[..count])]);
        assert_eq!(at(3, &[(0, 3.0)]), Verdict::Open);
        assert_eq!(at(41, &[(0, 3.0)]), Verdict::Open);
        assert_eq!(at(102, &[(0, 3.0), (100, 2.5)]), different("`loss` differs at step 100"));
        assert_eq!(at(101, &[(0, 3.0), (100, 2.0)]), equal(100, &[("loss", 2), ("rate", 101)]));
    }

    #[test]
    fn the_newest_step_may_be_incomplete() {
        let accuracy: (&str, &[(u64, f64)]) = ("accuracy", &[(2, 0.5), (4, 0.75)]);
        let loss: (&str, &[(u64, f64)]) = ("loss", &[(0, 3.0), (1, 2.0), (2, 1.5)]);
        assert_eq!(verdict(&[LOSS, accuracy], &[loss]), Verdict::Open, "a value of step 2 is missing");
        assert_eq!(verdict(&[LOSS, accuracy], &[LOSS]), Verdict::Open, "for ever");
        let first: (&str, &[(u64, f64)]) = ("accuracy", &[(2, 0.5)]);
        assert_eq!(verdict(&[LOSS, accuracy], &[LOSS, first]), equal(4, &[("accuracy", 1), ("loss", 5)]));
        // A further curve is a difference, as soon as its step is complete.
        let further: (&str, &[(u64, f64)]) = ("grad", &[(2, 0.5)]);
        assert_eq!(verdict(&[LOSS], &[loss, further]), Verdict::Open);
        assert_eq!(verdict(&[LOSS], &[LOSS, further]), different("`grad` differs at step 2"));
    }

    #[test]
    fn times_are_not_compared() {
        let time = |value: f64| {
            let mut all = curves(&[LOSS, ("step_ms", &[(0, value), (1, 2.0), (2, 3.0)])]);
            if let Some(curve) = all.get_mut("step_ms") {
                curve.unit = Unit::Milliseconds;
            }
            all
        };
        let earlier = Beginning { curves: time(1.0), ..Beginning::default() };
        assert_eq!(compare(&earlier, &time(9.0), &BTreeMap::new(), 2), equal(4, &[("loss", 5)]));
    }

    #[test]
    fn of_a_thinned_curve_the_points_that_it_has_are_compared() {
        let complete = BTreeMap::from([("loss".to_owned(), 1)]);
        let then = curves(&[("loss", &[(0, 3.0), (1, 2.0), (4, 1.0)])]);
        let earlier = Beginning { curves: then, complete, ..Beginning::default() };
        assert_eq!(compare(&earlier, &curves(&[LOSS]), &BTreeMap::new(), 2), equal(4, &[("loss", 3)]));
    }

    #[test]
    fn first_steps_are_complete_only_if_their_curve_is_not_thinned_yet() {
        let all: Vec<(u64, f64)> = (0..5000).map(|step| (step, 1.0)).collect();
        let thinned: Vec<(u64, f64)> = all.iter().copied().filter(|(step, _)| step % 4 == 0).collect();
        let recorded = curves(&[("loss", &thinned)]);
        for (at_first, complete) in [(&all[..10], Some(2)), (&thinned[..], None)] {
            let mut comparison = Comparison::new(&Trial { after: 2, earlier: None }, Path::new("."));
            assert_eq!(comparison.look(&[], || curves(&[("loss", at_first)])), None);
            let beginning = comparison.beginning(&recorded);
            assert_eq!(beginning.complete.get("loss").copied(), complete);
        }
    }

    #[test]
    fn states_must_have_equal_digests_and_are_waited_for() {
        let digests = |all: &[(u64, &str)]| all.iter().map(|(step, digest)| (*step, (*digest).to_owned())).collect();
        let earlier =
            Beginning { curves: curves(&[LOSS]), states: digests(&[(1, "a"), (9, "b")]), ..Beginning::default() };
        let compared = |states: &[(u64, &str)]| compare(&earlier, &curves(&[LOSS]), &digests(states), 2);
        assert_eq!(compared(&[]), Verdict::Open);
        assert_eq!(compared(&[(1, "c")]), different("the state at step 1 differs"));
        let Verdict::Equal(agreement) = compared(&[(1, "a")]) else { panic!("not equal") };
        assert_eq!(agreement.states, [1]);
    }
}
