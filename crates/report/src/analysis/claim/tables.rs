//! Claims about pairs that a table compares, too: no verdict tells sides apart that the table, which corrects for all of its
//! pairs, does not.

use std::fmt::Write as _;

use sweep_job::{Value, same_metric};

use super::{Lack, State, Verdict};
use crate::{
    analysis::{Compared, Show, Table, compare, evidence::Source},
    format::count,
    plan::resolved,
    recipe::{Claim, Compare, Measure, TableKind},
    stats::LEVEL,
};

/// A selection of points, by the names of the axes.
type Selected<'a> = Vec<(&'a str, Vec<Value>)>;

/// Leaves a claim undecided whose sides a table with the same pair does not tell apart.
pub(super) fn agree(verdicts: &mut [Verdict], source: Source<'_>) {
    let recipe = &source.study.recipe;
    for table in &recipe.tables {
        let TableKind::Compare(compare) = &table.kind else { continue };
        let pairs = compare::pairs(compare, source);
        let mut cached_table: Option<Table> = None;
        for (claim, verdict) in recipe.claims.iter().zip(verdicts.iter_mut()) {
            if !tells_apart(verdict, claim) {
                continue;
            }
            let Some(row) = pairs.iter().position(|pair| is_about(claim, compare, pair, source)) else { continue };
            let compare_table = cached_table.get_or_insert_with(|| compare::table(table, compare, source));
            let Some(p) = chance(compare_table, row, claim.metric()) else { continue };
            let cells =
                || compare_table.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.compared?.estimate.p);
            let word = verdict.state.word();
            verdict.state = State::Undecided;
            verdict.lacks = Some(Lack::Samples);
            verdict.open = true;
            let _ = write!(
                verdict.because,
                "; {word} by itself, but table `{}`, which corrects for {}, does not tell the sides apart (p = {p:.3})",
                table.name.value,
                count(cells().count(), "comparison"),
            );
        }
    }
}

/// True for a decided claim whose interval excludes that the sides are equal.
fn tells_apart(verdict: &Verdict, claim: &Claim) -> bool {
    let none = match claim.statement.number() {
        Some((_, Measure::Ratio)) => 1.0,
        Some((_, Measure::Difference)) => 0.0,
        _ => return false,
    };
    let is_decided = matches!(verdict.state, State::Supported | State::Refuted) && !verdict.certain;
    is_decided && !verdict.invariant && verdict.interval.is_some_and(|[low, high]| none < low || high < none)
}

/// True if the sides of a claim are a pair of a table, at the same points of other axes.
fn is_about(claim: &Claim, compare: &Compare, (of, to): &(Value, Value), source: Source<'_>) -> bool {
    let Some(comparison) = claim.statement.compared() else { return false };
    let Some(other) = &comparison.to else { return false };
    let recipe = &source.study.recipe;
    let axis = compare.axis.value.as_str();
    let sorted = |mut selected: Selected<'_>| -> Vec<(String, Vec<Value>)> {
        selected.sort_by(|a, b| a.0.cmp(b.0));
        selected.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
    };
    let selection_of = |value: &Value| {
        let mut selection = resolved(recipe, &compare.of.only);
        selection.push((axis, vec![value.clone()]));
        sorted(selection)
    };
    let claim_sides = [&comparison.of, other].map(|side| (side.step, sorted(resolved(recipe, &side.only))));
    let [first, second] = [of, to].map(|value| (compare.of.step, selection_of(value)));
    claim_sides == [first.clone(), second.clone()] || claim_sides == [second, first]
}

/// The corrected probability of the difference in a row, if it does not tell its sides apart.
fn chance(table: &Table, row: usize, metric: &str) -> Option<f64> {
    let is_metric = |show: Show, name: &str| show != Show::Odds && same_metric(name, metric);
    let column = table.columns.iter().position(|column| is_metric(column.show, &column.metric))?;
    let Compared { estimate, .. } = table.rows.get(row)?.cells.get(column)?.compared?;
    estimate.p.filter(|p| *p >= 1.0 - LEVEL)
}
