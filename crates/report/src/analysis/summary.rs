//! Tables of claims: for each claim the two sides, the ratios of several metrics, the paper's value and the verdict.

use sweep_job::Unit;

use crate::{
    analysis::{
        Cell, Column, Compared, Show, Table, TableRow, Verdict,
        absence::Footnotes,
        claim::{judge, side_of},
        evidence::Source,
        no_interval::explain,
        table::scale,
    },
    format::clean,
    recipe::{self, Claim, Expectation, Measure, Spanned, Statement},
    stats::{Estimate, Sample},
};

/// One row for each claim, one column for each metric.
pub(crate) fn table(
    table: &recipe::Table,
    claims: &[Spanned<usize>],
    source: Source<'_>,
    verdicts: &[Verdict],
) -> Table {
    let study = source.study;
    let claims: Vec<(usize, &Claim)> =
        claims.iter().map(|index| (index.value, &study.recipe.claims[index.value])).collect();
    let mut rows: Vec<TableRow> = claims
        .iter()
        .filter_map(|(index, claim)| {
            let verdict = &verdicts[*index];
            let comparison = claim.statement.ratio()?;
            let to = comparison.to.as_ref()?;
            let sides = format!("{} / {}", side_of(study, &comparison.of), side_of(study, to));
            let paper = claim.paper.map(|paper| paper.to_string()).unwrap_or_default();
            let word = format!("{} {}", verdict.state.sign(), verdict.word());
            let labels = [&claim.name.value, &sides, &comparison.metric.value, &paper, &word];
            Some(TableRow { labels: labels.map(|label| clean(label).into_owned()).to_vec(), cells: Vec::new() })
        })
        .collect();
    let mut columns = Vec::new();
    for metric in &table.cells {
        let mut unit = Unit::One;
        for ((_, claim), row) in claims.iter().zip(&mut rows) {
            row.cells.push(ratio(claim, metric, source));
            if let Some(comparison) = claim.statement.ratio() {
                unit = source.traits(comparison.of.step, &metric.value).unit;
            }
        }
        let cells: Vec<Cell> = rows.iter().filter_map(|row| row.cells.last().cloned()).collect();
        let scale = scale(&metric.value, &cells, Show::Ratio, unit);
        columns.push(Column { point: Vec::new(), metric: metric.value.clone(), unit, scale, show: Show::Ratio });
    }
    let agreements = claims.iter().filter_map(|(index, claim)| {
        let agreement = verdicts[*index].agreement()?;
        Some(clean(&format!("{}: {agreement}", claim.name.value)).into_owned())
    });
    let what = "ratio of the first of a pair to the second, [95 % CI]".to_owned();
    let mut footnotes = Footnotes::default();
    let unexplained = explain(&mut rows, &columns, &mut footnotes);
    let notes = std::iter::once(what).chain(agreements).chain(unexplained).chain(footnotes.texts()).collect();
    Table {
        name: table.name.value.clone(),
        title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
        axes: ["claim", "pair", "about", "paper", "verdict"].map(str::to_owned).to_vec(),
        columns,
        rows,
        notes,
    }
}

/// The ratio of another metric between the sides of a claim.
fn ratio(claim: &Claim, metric: &Spanned<String>, source: Source<'_>) -> Cell {
    // The hardware and the scale of a claim restrict its verdict, but not the numbers that are shown.
    let mut other = Claim { hardware: Vec::new(), scale: Vec::new(), ..claim.clone() };
    if let Statement::Number(comparison, Measure::Ratio, expect) = &mut other.statement {
        comparison.metric = metric.clone();
        *expect = Expectation::default();
    }
    let verdict = judge(&other, source);
    let Some(value) = verdict.value else { return Cell { points: 1, missing: 1, ..Cell::default() } };
    let no_interval = verdict.no_interval;
    let (low, high) = verdict.interval.map_or((None, None), |[low, high]| (Some(low), Some(high)));
    let estimate = Estimate { value, low, high, p: None };
    let compared = Some(Compared { estimate, noise: false });
    Cell { sample: Sample::new(&[value]), compared, no_interval, points: 1, ..Cell::default() }
}
