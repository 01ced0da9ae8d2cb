//! Claims about pairs that a table compares, too: no verdict distinguishes sides that the table, which corrects for all of its pairs, does
//! not distinguish.

use std::fmt::Write as _;

use sweep_job::{Value, same_metric};

use super::{Lack, State, Verdict, judge::state};
use crate::{
    analysis::{Compared, Show, Table, compare, evidence::Source},
    format::count,
    plan::resolved,
    recipe::{Claim, Compare, Measure, Names, Side, Statement, Statistic, TableKind},
    stats::LEVEL,
};

/// The points of a side: the index of the step, and the values of its axes in the order of their names.
type Points = (usize, Vec<(String, Vec<Value>)>);

/// The largest number of comparisons among which a table corrects a pair that a claim compares; 1 without such a table.
pub(super) fn comparisons(claim: &Claim, source: Source<'_>) -> usize {
    let sides = compared(claim, source);
    if sides.is_empty() || claim.rules.statistic != Statistic::Mean {
        return 1;
    }
    let tables = source.study.recipe.tables.iter().filter_map(|table| {
        let TableKind::Compare(compare) = &table.kind else { return None };
        let value_pairs = compare::pairs(compare, source);
        let has_metric = table.cells.iter().any(|cell| same_metric(&cell.value, claim.metric()));
        let of_claim = || {
            value_pairs
                .iter()
                .map(|pair| pair_of(compare, pair, source))
                .any(|pair| sides.iter().any(|own| is_same(own, &pair)))
        };
        (has_metric && of_claim()).then(|| value_pairs.len() * table.cells.len())
    });
    tables.max().unwrap_or(1)
}

fn is_same(a: &[Points; 2], b: &[Points; 2]) -> bool {
    a == b || (a[0] == b[1] && a[1] == b[0])
}

/// Leaves a claim undecided if a table with the same pair does not distinguish its sides and the verdict requires a difference.
pub(super) fn agree(verdicts: &mut [Verdict], source: Source<'_>) {
    let recipe = &source.study.recipe;
    for table in &recipe.tables {
        let TableKind::Compare(compare) = &table.kind else { continue };
        let pairs: Vec<[Points; 2]> =
            compare::pairs(compare, source).iter().map(|pair| pair_of(compare, pair, source)).collect();
        let mut cached_table: Option<Table> = None;
        for (claim, verdict) in recipe.claims.iter().zip(verdicts.iter_mut()) {
            let sides = compared(claim, source);
            if sides.is_empty() || !tells_apart(verdict, claim) {
                continue;
            }
            let row = |sides: &[Points; 2]| pairs.iter().position(|pair| is_same(pair, sides));
            let rows: Vec<usize> = sides.iter().filter_map(row).collect();
            if rows.is_empty() {
                continue;
            }
            let compare_table = cached_table.get_or_insert_with(|| compare::table(table, compare, source));
            let equal: Vec<f64> = rows.iter().filter_map(|row| chance(compare_table, *row, claim.metric())).collect();
            // An order is supported by all of its pairs, and refuted by one of them.
            let is_open = if verdict.state == State::Refuted { equal.len() == sides.len() } else { !equal.is_empty() };
            let Some(p) = equal.into_iter().reduce(f64::max).filter(|_| is_open) else { continue };
            let word = verdict.state.word();
            verdict.state = State::Undecided;
            verdict.lacks = Some(Lack::Samples);
            verdict.open = true;
            let number = compare::comparisons(compare_table);
            let corrected = if number > 1 {
                format!(", which corrects for {},", count(number, "comparison"))
            } else {
                String::new()
            };
            let _ = write!(
                verdict.because,
                "; {word} by itself, but table `{}`{corrected} does not tell the sides apart (p = {p:.3})",
                table.name.value,
            );
        }
    }
}

/// True for a decided claim about means whose verdict requires a difference between the sides.
fn tells_apart(verdict: &Verdict, claim: &Claim) -> bool {
    let is_decided = matches!(verdict.state, State::Supported | State::Refuted) && !verdict.certain;
    if !is_decided || verdict.invariant || claim.rules.statistic != Statistic::Mean {
        return false;
    }
    let none = match claim.statement.number() {
        Some((_, Measure::Ratio)) => 1.0,
        Some((_, Measure::Difference)) => 0.0,
        Some(_) => return false,
        None => return true,
    };
    let expect = claim.expectation().and_then(|expect| expect.in_unit(verdict.unit));
    let Some(([low, high], expect)) = verdict.interval.zip(expect) else { return false };
    state(low.min(none), high.max(none), expect) != verdict.state
}

/// The pairs of sides that a claim compares: one pair, or all pairs of neighbors in an order.
fn compared(claim: &Claim, source: Source<'_>) -> Vec<[Points; 2]> {
    let recipe = &source.study.recipe;
    match &claim.statement {
        Statement::Number(comparison, ..) => {
            let side = |side: &Side| (side.step, sorted(resolved(recipe, &side.only)));
            comparison.to.iter().map(|to| [side(&comparison.of), side(to)]).collect()
        }
        Statement::Order(order) => {
            let values = order.ascending.iter().filter_map(|value| value.resolve(&recipe.params, &Names::new()));
            let side = |value: Value| {
                let mut selection = resolved(recipe, &order.only);
                selection.push((order.axis.value.as_str(), vec![value]));
                (order.step, sorted(selection))
            };
            let sides: Vec<Points> = values.map(|value| side(value.value)).collect();
            sides.windows(2).map(|two| [two[0].clone(), two[1].clone()]).collect()
        }
    }
}

/// The sides of a pair of a table.
fn pair_of(compare: &Compare, (of, to): &(Value, Value), source: Source<'_>) -> [Points; 2] {
    [of, to].map(|value| {
        let mut selection = resolved(&source.study.recipe, &compare.of.only);
        selection.push((compare.axis.value.as_str(), vec![value.clone()]));
        (compare.of.step, sorted(selection))
    })
}

fn sorted(mut selection: Vec<(&str, Vec<Value>)>) -> Vec<(String, Vec<Value>)> {
    selection.sort_by(|a, b| a.0.cmp(b.0));
    selection.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
}

/// The corrected probability of the difference in a row, if the row does not distinguish its sides.
fn chance(table: &Table, row: usize, metric: &str) -> Option<f64> {
    let is_metric = |show: Show, name: &str| show != Show::Odds && same_metric(name, metric);
    let column = table.columns.iter().position(|column| is_metric(column.show, &column.metric))?;
    let Compared { estimate, .. } = table.rows.get(row)?.cells.get(column)?.compared?;
    estimate.p.filter(|p| *p >= 1.0 - LEVEL)
}
