//! Turns of measurements, from their records: the rounds of runs, and overlapping rounds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Measured, Under};

/// A run and a round of it; `None` for a measurement outside of rounds.
pub(crate) type Turn<'m> = (Option<&'m str>, Option<usize>);

/// The runs and rounds that measurements belong to.
pub fn turns<'m>(side: &[(&Measured, &'m Under)]) -> BTreeSet<Turn<'m>> {
    side.iter().map(|(_, under)| (under.run.as_deref(), under.round)).collect()
}

/// The rounds of a run that began before all measurements of the preceding round had begun, and these preceding rounds.
pub fn overlapping<'m>(all: &[(&Measured, &'m Under)]) -> BTreeSet<Turn<'m>> {
    let mut spans: BTreeMap<Turn<'_>, (Timestamp, Timestamp)> = BTreeMap::new();
    for (measured, under) in all {
        let turn = (under.run.as_deref(), under.round);
        let (first, last) = spans.entry(turn).or_insert((measured.started, measured.started));
        (*first, *last) = ((*first).min(measured.started), (*last).max(measured.started));
    }
    let mut turns = BTreeSet::new();
    let mut spans_in_order: Vec<(&Turn<'_>, &(Timestamp, Timestamp))> = spans.iter().collect();
    spans_in_order.sort_by_key(|(turn, span)| (turn.0, **span));
    // The preceding round that began last.
    let mut latest_span: Option<(Turn<'_>, Timestamp)> = None;
    for (turn, (first, last)) in spans_in_order {
        if let Some((previous_turn, end)) =
            latest_span.filter(|(previous_turn, end)| end > first && previous_turn.0 == turn.0)
        {
            turns.extend([previous_turn, *turn]);
            if end > *last {
                continue;
            }
        }
        latest_span = Some((*turn, *last));
    }
    turns
}

/// True for each of these rounds of a step, given its measurements, if not all of them were made in one round of a run, or if
/// the round overlapped with another one.
pub fn out_of_turn(rounds: &[Vec<&Measured>]) -> Vec<bool> {
    let measurements: Vec<(&Measured, &Under)> = rounds.iter().flat_map(|round| known(round)).collect();
    let overlapping_turns = overlapping(&measurements);
    let is_out = |round: &Vec<&Measured>| {
        let turns = turns(&known(round));
        let is_apart = turns.len() > 1 || turns.iter().any(|(_, round)| round.is_none());
        round.len() > 1 && (is_apart || turns.iter().any(|turn| overlapping_turns.contains(turn)))
    };
    rounds.iter().map(is_out).collect()
}

/// The measurements whose conditions were recorded.
fn known<'m>(round: &[&'m Measured]) -> Vec<(&'m Measured, &'m Under)> {
    round.iter().filter_map(|measured| Some((*measured, measured.under.as_deref()?))).collect()
}
