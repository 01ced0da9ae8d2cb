//! The outcome of an imported run.

use sweep_job::{Curve, Outcome, Unit, tasks::Imported};

use super::{End, Points, Run};

/// Points of a curve at most; of a longer one, points at equal distances are kept.
const MAX_POINTS: usize = 1000;

/// The outcome of a run: its metrics and curves. An unfinished run has no metrics, but facts with the reasons. `source` is the store in
/// words. Also returns notices about values that are left out.
pub fn outcome(run: &Run, source: &str) -> (Outcome, Vec<String>) {
    let (mut outcome, mut notices) = (Outcome::default(), Vec::new());
    let mut fact = |name: &str, text: &str| {
        if !text.is_empty() {
            outcome.facts.insert(name.to_owned(), text.to_owned());
        }
    };
    fact(Imported::SOURCE, source);
    fact("run", &run.id);
    fact("name", &run.name);
    for (name, value) in &run.params {
        fact(&format!("params.{name}"), &value.to_string());
    }
    let (end, without_result) = match &run.end {
        End::Finished => ("", None),
        End::Failed(word) => (word.as_str(), Some(format!("the run had failed at its source ({word})"))),
        End::Running => {
            let reason = "the run had not ended when it was imported: it was running, or was killed";
            (Imported::RUNNING, Some(reason.to_owned()))
        }
    };
    fact(Imported::END, end);
    for (name, points) in &run.series {
        match (&without_result, points.last()) {
            (Some(reason), _) => {
                outcome.facts.insert(Outcome::absent(name), reason.clone());
            }
            (None, Some(last)) if last.is_finite() => outcome.set_open(name, last, Unit::One),
            (None, Some(_)) => outcome.set_diverged(name, since(points)),
            (None, None) => {}
        }
        if let Some(curve) = curve(name, points, &mut notices) {
            outcome.curves.insert(name.clone(), curve);
        }
    }
    (outcome, notices)
}

/// The first step of the newest values that are not finite.
fn since(points: &Points) -> Option<u64> {
    points.by_step.iter().rev().take_while(|(_, value)| !value.is_finite()).last().map(|(step, _)| *step)
}

/// The finite values of a metric; `None` with fewer than two.
fn curve(name: &str, points: &Points, notices: &mut Vec<String>) -> Option<Curve> {
    let finite: Vec<(u64, f64)> =
        points.by_step.iter().map(|(step, value)| (*step, *value)).filter(|(_, value)| value.is_finite()).collect();
    let dropped = points.by_step.len() - finite.len();
    if dropped > 0 {
        notices.push(format!("{dropped} values of `{name}` are not finite, and not in its curve"));
    }
    let last = finite.len().checked_sub(1).filter(|last| *last > 0)?;
    let points: Vec<(u64, f64)> = if finite.len() <= MAX_POINTS {
        finite
    } else {
        notices.push(format!("the curve of `{name}` has {MAX_POINTS} of {} values", finite.len()));
        (0..MAX_POINTS).map(|index| finite[index * last / (MAX_POINTS - 1)]).collect()
    };
    let (at, values) = points.into_iter().unzip();
    Some(Curve { unit: Unit::One, at, values }.named(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[f64], end: End) -> Run {
        let mut run = Run { id: "a".into(), end, ..Run::default() };
        (0..).zip(values).for_each(|(step, value)| run.log("loss", step, *value));
        run
    }

    #[test]
    fn a_run_that_has_not_finished_has_curves_but_no_metrics() {
        for end in [End::Running, End::Failed("KILLED".into())] {
            let (outcome, _) = outcome(&run(&[2.0, 1.0], end), "MLflow, `mlruns`");
            assert!(outcome.metrics.is_empty());
            assert_eq!(outcome.curves["loss"].values, [2.0, 1.0]);
            assert!(outcome.facts["absent.loss"].starts_with("the run had "), "{:?}", outcome.facts);
            assert_eq!(Imported::source(&outcome, "imported"), Some("MLflow, `mlruns`"));
            assert_eq!(Imported::source(&outcome, "command"), None);
        }
    }

    #[test]
    fn the_newest_value_decides_and_divergence_is_a_reason() {
        let (finite, notices) = outcome(&run(&[f64::NAN, 1.0, 3.0], End::Finished), "x");
        assert_eq!((finite.metrics["loss"].value, notices.len()), (3.0, 1));
        let (diverged, _) = outcome(&run(&[1.0, 2.0, f64::NAN, f64::INFINITY], End::Finished), "x");
        assert_eq!(diverged.diverged().collect::<Vec<_>>(), [("loss", Some(2))]);
        assert!(diverged.metrics.is_empty());
    }

    #[test]
    fn long_curves_keep_their_ends() {
        let values: Vec<f64> = (0..5000).map(f64::from).collect();
        let (outcome, notices) = outcome(&run(&values, End::Finished), "x");
        let curve = &outcome.curves["loss"];
        assert_eq!((curve.at.len(), curve.at.first(), curve.at.last()), (MAX_POINTS, Some(&0), Some(&4999)));
        assert!(curve.at.windows(2).all(|two| two[0] < two[1]));
        assert_eq!(notices, ["the curve of `loss` has 1000 of 5000 values"]);
    }
}
