//! Times to an event of runs, some of which end without it: the share that has not reached it (Kaplan and Meier), the mean time up
//! to a horizon, and the comparison of two groups (log-rank test).

use statrs::distribution::{ChiSquared, ContinuousCDF as _};

use super::Draws;

/// Most assignments of runs to two groups that are all compared.
const MAX_ASSIGNMENTS: usize = 10_000;
/// Most runs whose assignments are all compared: each costs the product of runs and events.
const MAX_EXACT_RUNS: usize = 200;
/// Assignments that are drawn where there are more.
const DRAWN_ASSIGNMENTS: usize = 2_000;
/// Most runs whose assignments are drawn; with more, the log-rank statistic has the chi-squared distribution.
const MAX_DRAWN_RUNS: usize = 100;

/// A run: the time at which it reached the event, or the time at which it ended without it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeToEvent {
    /// The time; finite, not negative.
    pub time: f64,
    /// True if the run reached the event.
    pub reached: bool,
}

/// The share of runs that have not reached the event after each time of an event, in the order of the times (Kaplan and Meier).
pub fn survival(runs: &[TimeToEvent]) -> Vec<(f64, f64)> {
    let mut share = 1.0;
    let step = |time: f64| {
        share *= 1.0 - events_at(runs, time) as f64 / at_risk(runs, time) as f64;
        (time, share)
    };
    event_times(runs).into_iter().map(step).collect()
}

/// The time at which half of the runs have reached the event: where the share is one half over a span of time, the middle of it, which
/// is the median of the times if all runs reach the event. `None` if the share does not fall below one half.
pub fn median_time(runs: &[TimeToEvent]) -> Option<f64> {
    // A share such as 1 − 1/6 − 2/6 is not exactly one half.
    const ROUNDING: f64 = 1e-12;
    let steps = survival(runs);
    let below = steps.iter().find(|(_, share)| *share < 0.5 - ROUNDING)?.0;
    let at_half = steps.iter().find(|(_, share)| (*share - 0.5).abs() <= ROUNDING);
    Some(at_half.map_or(below, |(time, _)| f64::midpoint(*time, below)))
}

/// The mean time up to a horizon: the area below the curve of Kaplan and Meier. Valid up to the time of the last run.
pub fn restricted_mean(runs: &[TimeToEvent], horizon: f64) -> f64 {
    let (mut area, mut last, mut share) = (0.0, 0.0, 1.0);
    for (time, next) in survival(runs).into_iter().take_while(|(time, _)| *time < horizon) {
        area += share * (time - last);
        (last, share) = (time, next);
    }
    area + share * (horizon - last)
}

/// The contribution of each run to the restricted mean (pseudo-observations: Andersen, Hansen and Klein, 2004). Their mean is near the
/// restricted mean, and equal to it if no run ends without the event before the horizon: each is then the smaller of time and horizon.
pub fn pseudo_times(runs: &[TimeToEvent], horizon: f64) -> Vec<f64> {
    let is_early = |run: &TimeToEvent| !run.reached && run.time < horizon;
    if !runs.iter().any(is_early) || runs.len() < 2 {
        return runs.iter().map(|run| if run.reached { run.time.min(horizon) } else { horizon }).collect();
    }
    let (n, all) = (runs.len() as f64, restricted_mean(runs, horizon));
    let without = |left_out: usize| {
        let remaining_runs: Vec<TimeToEvent> =
            runs.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, run)| *run).collect();
        n * all - (n - 1.0) * restricted_mean(&remaining_runs, horizon)
    };
    (0..runs.len()).map(without).collect()
}

/// The log-rank test of two groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogRank {
    /// The statistic, (observed − expected events)² in units of its variance.
    pub statistic: f64,
    /// The two-sided p-value: over all assignments of the runs to the groups, over drawn ones if there are more than 10,000, or, with
    /// more than 100 runs, by the chi-squared distribution.
    pub p: f64,
}

/// Compares the times of two groups; `None` if a group is empty, or if no run that can be compared reached the event.
pub fn log_rank(first: &[TimeToEvent], second: &[TimeToEvent]) -> Option<LogRank> {
    let runs = [first, second].concat();
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let own: Vec<bool> = (0..runs.len()).map(|index| index < first.len()).collect();
    let statistic = statistic(&runs, &own)?;
    let p = match assignments(runs.len(), first.len()).filter(|_| runs.len() <= MAX_EXACT_RUNS) {
        Some(count) => exact(&runs, first.len(), statistic, count),
        None if runs.len() <= MAX_DRAWN_RUNS => drawn(&runs, &own, statistic),
        None => ChiSquared::new(1.0).ok()?.sf(statistic),
    };
    Some(LogRank { statistic, p })
}

/// The log-rank statistic of the runs that are in the first group.
fn statistic(runs: &[TimeToEvent], is_first: &[bool]) -> Option<f64> {
    let (mut distance, mut variance) = (0.0, 0.0);
    for time in event_times(runs) {
        let mut counts = [0.0; 4];
        for (run, is_first) in runs.iter().zip(is_first).filter(|(run, _)| run.time >= time) {
            let is_event = run.reached && run.time == time;
            counts[0] += 1.0;
            counts[1] += f64::from(u8::from(*is_first));
            counts[2] += f64::from(u8::from(is_event));
            counts[3] += f64::from(u8::from(is_event && *is_first));
        }
        let [all, own, events, own_events] = counts;
        distance += own_events - events * own / all;
        if all > 1.0 {
            variance += events * (own / all) * (1.0 - own / all) * (all - events) / (all - 1.0);
        }
    }
    (variance > 0.0).then(|| distance * distance / variance)
}

/// The number of ways to choose a group, unless there are too many.
fn assignments(all: usize, own: usize) -> Option<usize> {
    let mut count = 1_usize;
    for index in 0..own.min(all - own) {
        count = count.checked_mul(all - index)? / (index + 1);
        if count > MAX_ASSIGNMENTS {
            return None;
        }
    }
    Some(count)
}

/// The share of assignments with a statistic at least as large.
fn exact(runs: &[TimeToEvent], own: usize, least: f64, count: usize) -> f64 {
    let mut indices: Vec<usize> = (0..own).collect();
    let mut extreme = 0_usize;
    loop {
        let mut is_first = vec![false; runs.len()];
        for index in &indices {
            is_first[*index] = true;
        }
        // Equal assignments differ by rounding.
        extreme += usize::from(statistic(runs, &is_first).is_some_and(|value| value >= least * (1.0 - 1e-9)));
        // The next combination in lexical order.
        let Some(place) = (0..own).rev().find(|place| indices[*place] < runs.len() - own + place) else { break };
        indices[place] += 1;
        for later in place + 1..own {
            indices[later] = indices[later - 1] + 1;
        }
    }
    extreme as f64 / count as f64
}

/// The share of drawn assignments, including the actual one, with a statistic at least as large.
fn drawn(runs: &[TimeToEvent], own: &[bool], least: f64) -> f64 {
    let (mut draws, mut is_first) = (Draws::new(1), own.to_vec());
    let mut extreme = 1_usize;
    for _ in 0..DRAWN_ASSIGNMENTS {
        for last in (1..is_first.len()).rev() {
            is_first.swap(last, draws.below(last + 1));
        }
        extreme += usize::from(statistic(runs, &is_first).is_some_and(|value| value >= least * (1.0 - 1e-9)));
    }
    extreme as f64 / (DRAWN_ASSIGNMENTS + 1) as f64
}

/// The times of events, each once, in order.
fn event_times(runs: &[TimeToEvent]) -> Vec<f64> {
    let mut times: Vec<f64> = runs.iter().filter(|run| run.reached).map(|run| run.time).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    times
}

fn at_risk(runs: &[TimeToEvent], time: f64) -> usize {
    runs.iter().filter(|run| run.time >= time).count()
}

fn events_at(runs: &[TimeToEvent], time: f64) -> usize {
    runs.iter().filter(|run| run.reached && run.time == time).count()
}
