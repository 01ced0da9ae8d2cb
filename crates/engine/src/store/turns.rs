//! Turns of measurements, from their records: the rounds of runs, and the overlapping ones.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Measured, Under};

/// A run and a round of it; `None` for a measurement outside of rounds.
pub(crate) type Turn<'m> = (Option<&'m str>, Option<usize>);

/// The runs and rounds that measurements belong to.
pub(crate) fn turns<'m>(side: &[(&Measured, &'m Under)]) -> BTreeSet<Turn<'m>> {
    side.iter().map(|(_, under)| (under.run.as_deref(), under.round)).collect()
}

/// The rounds of a run that began before the one before them had begun everywhere, and these.
pub(crate) fn overlapping<'m>(all: &[(&Measured, &'m Under)]) -> BTreeSet<Turn<'m>> {
    let mut begun: BTreeMap<Turn<'_>, (Timestamp, Timestamp)> = BTreeMap::new();
    for (one, under) in all {
        let turn = (under.run.as_deref(), under.round);
        let (first, last) = begun.entry(turn).or_insert((one.started, one.started));
        (*first, *last) = ((*first).min(one.started), (*last).max(one.started));
    }
    let mut found = BTreeSet::new();
    let mut ordered: Vec<(&Turn<'_>, &(Timestamp, Timestamp))> = begun.iter().collect();
    ordered.sort_by_key(|(turn, begun)| (turn.0, **begun));
    // The round that began last among those before.
    let mut latest: Option<(Turn<'_>, Timestamp)> = None;
    for (turn, (first, last)) in ordered {
        if let Some((before, end)) = latest.filter(|(before, end)| end > first && before.0 == turn.0) {
            found.extend([before, *turn]);
            if end > *last {
                continue;
            }
        }
        latest = Some((*turn, *last));
    }
    found
}

/// True for each of these rounds of a step, given its measurements, if not all of them were made in one round of a run, or if
/// the round overlapped with another one.
pub(crate) fn out_of_turn(rounds: &[Vec<&Measured>]) -> Vec<bool> {
    let all: Vec<(&Measured, &Under)> = rounds.iter().flat_map(|round| known(round)).collect();
    let overlapping = overlapping(&all);
    let is_out = |round: &Vec<&Measured>| {
        let turns = turns(&known(round));
        let is_apart = turns.len() > 1 || turns.iter().any(|(_, round)| round.is_none());
        round.len() > 1 && (is_apart || turns.iter().any(|turn| overlapping.contains(turn)))
    };
    rounds.iter().map(is_out).collect()
}

/// The measurements whose conditions were recorded.
fn known<'m>(round: &[&'m Measured]) -> Vec<(&'m Measured, &'m Under)> {
    round.iter().filter_map(|one| Some((*one, one.under.as_deref()?))).collect()
}
