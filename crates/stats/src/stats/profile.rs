//! Performance profiles over workloads: how near the time of a method is to the fastest one, over all workloads.

use super::{Draws, Estimate, TimeToEvent, median_time, sample::percentile, student::LEVEL};

/// Draws of a bootstrap.
const DRAWS: usize = 2_000;
/// The multiple of the fastest time at which a profile ends, as in `AlgoPerf`.
pub const MAX_FACTOR: f64 = 4.0;

/// The scores of methods: the area below the performance profile of each, from 1 to [`MAX_FACTOR`] times the fastest method, divided by its
/// width (Dahl et al., 2023). A profile is the share of workloads whose target a method reaches within a multiple of the time of the
/// fastest method; the time on a workload is the median of the runs, and infinite if half of them do not reach the target. A score is 1 for
/// a method that is the fastest on all workloads, and 0 for a method that is never within the multiple.
///
/// `runs` has the runs of each method on each workload. The interval is the percentile interval of a bootstrap of runs within methods and
/// workloads; if any method has a single run on a workload, there is no interval. `None` without workloads, or if a method lacks runs on
/// one.
pub fn profile_scores(runs: &[Vec<Vec<TimeToEvent>>]) -> Option<Vec<Estimate>> {
    let workloads = runs.first()?.len();
    let is_whole =
        |method: &Vec<Vec<TimeToEvent>>| method.len() == workloads && method.iter().all(|runs| !runs.is_empty());
    if workloads == 0 || !runs.iter().all(is_whole) {
        return None;
    }
    let values = scores(&medians(runs));
    let is_repeated = runs.iter().flatten().all(|runs| runs.len() > 1);
    let mut drawn: Vec<Vec<f64>> = vec![Vec::new(); runs.len()];
    let mut draws = Draws::new(1);
    for _ in 0..if is_repeated { DRAWS } else { 0 } {
        let again: Vec<Vec<Vec<TimeToEvent>>> = runs
            .iter()
            .map(|method| {
                method.iter().map(|runs| runs.iter().map(|_| runs[draws.below(runs.len())]).collect()).collect()
            })
            .collect();
        for (score_draws, score) in drawn.iter_mut().zip(scores(&medians(&again))) {
            score_draws.push(score);
        }
    }
    let estimate = |(value, mut drawn): (f64, Vec<f64>)| {
        drawn.sort_by(f64::total_cmp);
        let [low, high] = [(1.0 - LEVEL) / 2.0, f64::midpoint(1.0, LEVEL)].map(|share| percentile(&drawn, share));
        Estimate { value, low, high, p: None }
    };
    Some(values.into_iter().zip(drawn).map(estimate).collect())
}

/// The median time of each method on each workload; `None` where half of the runs do not reach the target.
fn medians(runs: &[Vec<Vec<TimeToEvent>>]) -> Vec<Vec<Option<f64>>> {
    runs.iter().map(|method| method.iter().map(|runs| median_time(runs)).collect()).collect()
}

/// The mean over workloads of the part of the profile that lies beyond a method's multiple of the fastest time.
fn scores(times: &[Vec<Option<f64>>]) -> Vec<f64> {
    let workloads = times.first().map_or(0, Vec::len);
    let fastest: Vec<Option<f64>> =
        (0..workloads).map(|place| times.iter().filter_map(|method| method[place]).reduce(f64::min)).collect();
    let part = |(own, fastest): (&Option<f64>, &Option<f64>)| match (own, fastest) {
        (Some(own), Some(fastest)) if *fastest > 0.0 => ((MAX_FACTOR - own / fastest) / (MAX_FACTOR - 1.0)).max(0.0),
        // A time of zero is a multiple of nothing.
        (Some(own), Some(_)) => f64::from(u8::from(*own == 0.0)),
        _ => 0.0,
    };
    times.iter().map(|method| method.iter().zip(&fastest).map(part).sum::<f64>() / workloads as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scores are areas of profiles on a grid of 300,001 multiples with `NumPy` (`trapezoid`), which agree to 1e-5.
    #[test]
    fn scores_are_areas_of_profiles() {
        let of = |times: &[f64]| -> Vec<TimeToEvent> {
            times.iter().map(|time| TimeToEvent { time: time.abs(), reached: *time > 0.0 }).collect()
        };
        let runs = vec![
            vec![of(&[100.0, 110.0, 130.0]), of(&[50.0, 52.0, 47.0]), of(&[300.0, 310.0, -400.0])],
            vec![of(&[150.0, 160.0, 165.0]), of(&[40.0, 41.0, 44.0]), of(&[-400.0, -400.0, 390.0])],
        ];
        let scores = profile_scores(&runs).unwrap();
        for (ours, theirs) in scores.iter().zip([0.975_609_444, 0.616_161_667]) {
            assert!((ours.value - theirs).abs() < 1e-5, "{ours:?}");
            assert!(ours.low.is_some_and(|low| low <= ours.value) && ours.high.is_some_and(|high| ours.value <= high));
        }
        let one = vec![vec![of(&[5.0])], vec![of(&[10.0])]];
        let scores: Vec<(f64, Option<f64>)> =
            profile_scores(&one).unwrap().iter().map(|one| (one.value, one.low)).collect();
        assert_eq!(scores, [(1.0, None), (2.0 / 3.0, None)]);
        assert_eq!(
            (profile_scores(&[]), profile_scores(&[vec![]]), profile_scores(&[vec![vec![]]])),
            (None, None, None)
        );
    }
}
