//! Tables of comparisons: the effect of one axis on a metric, in pairs over all other axes.

use std::collections::{BTreeMap, BTreeSet};

use sweep_job::{Metric, Value};

use crate::{
    analysis::{
        Absence, Cell, Column, Compared, Show, Table, TableRow,
        absence::Footnotes,
        alike::{count_alone, leave_out_equal, without_copies},
        evidence::{Evidence, Found, Question, Side, Source, complete, relative},
        kinds::Kinds,
        no_interval::NoInterval,
        pairs::apart,
        table::{scale, too_wide},
        units::{Cells, SamplingUnit, blocks, place, unit_values},
    },
    format::{clean, count, measured},
    plan::{JobId, Point, resolved, selected},
    recipe::{self, Compare, MetricTraits, Names},
    stats::{Estimate, LEVEL, Sample, holm, quantile},
};

/// The table: one row for each pair of values, one column for each metric, and one for its odds if the table has a region
/// of practical equivalence.
pub(crate) fn table(table: &recipe::Table, compare: &Compare, source: Source<'_>) -> Table {
    let step = &source.study.recipe.steps[compare.of.step];
    let axis = compare.axis.value.as_str();
    let value_pairs = pairs(compare, source);
    let sign = if compare.ratio { '/' } else { '−' };
    let mut rows: Vec<TableRow> = value_pairs
        .iter()
        .map(|(of, to)| TableRow { labels: vec![clean(&format!("{of} {sign} {to}")).into_owned()], cells: Vec::new() })
        .collect();
    let mut footnotes = Footnotes::default();
    let mut columns = Vec::new();
    let mut floors = Vec::new();
    let mut remarks = BTreeSet::new();
    for metric in table.cells.iter().map(|cell| cell.value.as_str()) {
        let traits = source.traits(compare.of.step, metric);
        let (apart, kinds) = (apart(step, &[axis]), source.kinds(&[compare.of.step]));
        let sides = Sides { source, table, compare, metric, traits, apart, kinds };
        let floor = sides.floor();
        floors.extend(floor.map(|floor| (metric, floor, traits.unit)));
        let mut odds = Vec::new();
        let mut column = Vec::new();
        for (of, to) in &value_pairs {
            let (mut cell, absent, notes) = sides.compare(of, to, floor);
            for (absence, job) in absent {
                cell.lacks(&absence, job, &mut footnotes);
            }
            remarks.extend(notes);
            odds.push(Cell { sample: cell.sample, odds: cell.odds, points: cell.points, ..Cell::default() });
            column.push(cell);
        }
        remarks.extend(correlated(&column, metric));
        if compare.pooled {
            let own =
                "each comparison has its own error: a pooled one needs all results, with the same seeds, at one look";
            remarks.insert(sides.join(&value_pairs, &mut column).unwrap_or_else(|| own.to_owned()));
        }
        for (row, cell) in rows.iter_mut().zip(column) {
            row.cells.push(cell);
        }
        let show = if compare.ratio { Show::Ratio } else { Show::Difference };
        let cells: Vec<Cell> = rows.iter().filter_map(|row| row.cells.last().cloned()).collect();
        let scale = scale(metric, &cells, show, traits.unit);
        let column = |show| Column { point: Vec::new(), metric: metric.to_owned(), unit: traits.unit, scale, show };
        columns.push(column(show));
        if compare.equivalent.is_some() {
            columns.push(column(Show::Odds));
            for (row, cell) in rows.iter_mut().zip(odds) {
                row.cells.push(cell);
            }
        }
    }
    let compared = correct(&mut rows, &columns, |show| show != Show::Odds);
    let mut notes = notes(&rows, &columns, compare, compared);
    notes.extend(remarks);
    for (metric, floor, unit) in floors {
        let floor = if compare.ratio {
            format!("{:.2} %", floor * 100.0)
        } else {
            measured(metric, Metric { value: floor, unit })
        };
        let axis_name = compare.noise.as_ref().map_or_else(String::new, |noise| clean(&noise.value).into_owned());
        notes.push(format!("noise floor of {}: {floor}, from the same job repeated along {axis_name}", clean(metric)));
    }
    notes.extend(footnotes.texts());
    Table {
        name: table.name.value.clone(),
        title: clean(table.title.as_ref().unwrap_or(&table.name.value)).into_owned(),
        axes: vec![axis.to_owned()],
        columns,
        rows,
        notes,
    }
}

/// The values to compare, each with its baseline.
pub(super) fn pairs(compare: &Compare, source: Source<'_>) -> Vec<(Value, Value)> {
    let value = |template: &recipe::Template| {
        template.resolve(&source.study.recipe.params, &Names::new()).map(|resolved| resolved.value)
    };
    match &compare.values {
        recipe::ComparedValues::Pairs(pairs) => {
            pairs.iter().filter_map(|(of, to)| Some((value(of)?, value(to)?))).collect()
        }
        recipe::ComparedValues::Baseline(baseline) => {
            let Some(baseline) = value(baseline) else { return Vec::new() };
            let selection = resolved(&source.study.recipe, &compare.of.only);
            let points = source.study.steps[compare.of.step].iter().map(|(point, _)| point);
            let mut values: Vec<Value> = Vec::new();
            for other in
                points.filter(|point| selected(point, &selection)).filter_map(|point| point.get(&compare.axis.value))
            {
                if *other != baseline && !values.contains(other) {
                    values.push(other.clone());
                }
            }
            values.into_iter().map(|other| (other, baseline.clone())).collect()
        }
    }
}

/// The pairs of a table whose differences chance can explain, or that have only one measurement: the reason, and the
/// jobs at whose points to add seeds.
pub(crate) fn undecided(table: &recipe::Table, compare: &Compare, source: Source<'_>) -> Vec<(String, Vec<JobId>)> {
    let full_table = self::table(table, compare, source);
    let mut undecided = Vec::new();
    for (row, (of, to)) in full_table.rows.iter().zip(pairs(compare, source)) {
        if !row.cells.iter().any(|cell| cell.open) {
            continue;
        }
        let mut only = resolved(&source.study.recipe, &compare.of.only);
        only.push((&compare.axis.value, vec![of, to]));
        let because = format!("{} in table `{}` is within the noise", row.labels.join(", "), table.name.value);
        undecided.push((because, source.jobs(compare.of.step, &only)));
    }
    undecided
}

/// Corrects the p-values of all comparisons of a table, which are in columns of one kind, marks differences that chance can explain, and
/// returns the number of comparisons.
pub(super) fn correct(rows: &mut [TableRow], columns: &[Column], is_shown: impl Fn(Show) -> bool) -> usize {
    // Multiple tests increase the probability of a false positive.
    let cells = rows.iter_mut().flat_map(|row| row.cells.iter_mut().zip(columns));
    let tests = cells.filter(|(cell, column)| is_shown(column.show) && !cell.joint && is_test(cell));
    let mut cells: Vec<&mut Cell> = tests.map(|(cell, _)| cell).collect();
    // A comparison that lacks results is still a test of the table; otherwise failures would loosen the correction of the others.
    let chance: Vec<Option<f64>> = cells.iter().map(|cell| cell.compared?.estimate.p).collect();
    let corrected = holm(&chance.iter().map(|p| p.unwrap_or(1.0)).collect::<Vec<_>>());
    for ((cell, p), _) in cells.iter_mut().zip(corrected).zip(&chance).filter(|(_, p)| p.is_some()) {
        cell.open = p >= 1.0 - LEVEL;
        if let Some(compared) = &mut cell.compared {
            compared.estimate.p = Some(p);
            compared.noise |= cell.open;
        }
    }
    if chance.iter().any(Option::is_some) { chance.len() } else { 0 }
}

/// The number of comparisons that a table corrects its p-values for.
pub(super) fn comparisons(table: &Table) -> usize {
    let cells = table.rows.iter().flat_map(|row| row.cells.iter().zip(&table.columns));
    cells.filter(|(cell, column)| column.show != Show::Odds && is_test(cell)).count()
}

/// True if a cell compares two values by a test, or will do so when all results exist.
fn is_test(cell: &Cell) -> bool {
    cell.points > 0 && cell.compared.is_none_or(|compared| compared.estimate.p.is_some())
}

/// The comparisons of a metric.
struct Sides<'a> {
    source: Source<'a>,
    table: &'a recipe::Table,
    compare: &'a Compare,
    metric: &'a str,
    traits: MetricTraits,
    apart: Vec<String>,
    kinds: Kinds,
}

type Absent = Vec<(Absence, Option<JobId>)>;

impl<'a> Sides<'a> {
    fn side(&self, value: Option<&Value>) -> Side<'a> {
        let mut selection = resolved(&self.source.study.recipe, &self.compare.of.only);
        selection.extend(value.map(|value| (self.compare.axis.value.as_str(), vec![value.clone()])));
        self.source.side(self.compare.of.step, &selection, self.metric, self.traits)
    }

    fn repeats(&self) -> Option<&'a str> {
        self.compare.noise.as_ref().map(|noise| noise.value.as_str())
    }

    fn question(&self) -> Question<'a> {
        let (apart, kinds, rules) = (self.apart.clone(), self.kinds.clone(), self.table.rules);
        let (traits, ratio) = (self.traits, self.compare.ratio);
        Question { traits, apart, kinds, repeats: self.repeats(), ratio, unpaired: true, rules }
    }

    /// The cell, the reasons for missing results in it, and remarks.
    fn compare(&self, of: &Value, to: &Value, floor: Option<f64>) -> (Cell, Absent, Vec<String>) {
        let (mut of, mut to) = (self.side(Some(of)), self.side(Some(to)));
        let mut absent: Absent =
            of.absent.iter().chain(&to.absent).map(|(absence, job, _)| (absence.clone(), Some(*job))).collect();
        let points = of.found.len() + to.found.len() + absent.len();
        let mut cell = Cell { missing: absent.len(), points, ..Cell::default() };
        let (question, ratio) = (self.question(), self.compare.ratio);
        let evidence = match Evidence::of_two(&mut of, &mut to, &question) {
            Ok(evidence) => evidence,
            Err(silence) => {
                let absence = Absence::of_silence(silence).filter(|absence| {
                    // Sides without measurements have no results that could be left out.
                    *absence != Absence::Incomplete || !of.found.is_empty() && !to.found.is_empty()
                });
                absent.extend(absence.map(|absence| (absence, None)));
                return (cell, absent, Vec::new());
            }
        };
        let estimate = evidence.estimate();
        cell.sample = Some(evidence.sample);
        cell.odds = self.compare.equivalent.and_then(|region| evidence.odds(region));
        absent.extend(Absence::of_doubt(&evidence).map(|absence| (absence, None)));
        cell.open = estimate.p.is_none() && !matches!(evidence.doubt(), Some(NoInterval::NoEffect(_)));
        let size = if ratio { estimate.value.ln().abs() } else { estimate.value.abs() };
        let noise = floor.is_some_and(|floor| size <= floor);
        cell.compared = Some(Compared { estimate, noise });
        cell.correlation = evidence.correlation;
        cell.is_unpaired = evidence.is_unpaired();
        let looks =
            evidence.level.words().map(|looks| format!("intervals and p allow for looks at the results: {looks}"));
        let mut remarks: Vec<String> = evidence.notes.iter().cloned().chain(looks).collect();
        if evidence.left_out.is_some() {
            remarks
                .push("differences use the seeds that both sides have; jobs with other seeds are left out".to_owned());
        }
        let filled = of.found.iter().chain(&to.found).filter(|found| found.by.is_none()).count();
        if filled > 0 {
            remarks.push(format!("{} without a result counted as the worst", count(filled, "job")));
        }
        (cell, absent, remarks)
    }

    /// Compares all values with their baseline jointly, with one error for all of them (Dunnett), if they have the same seeds and the
    /// results are tested only once; returns a remark. Otherwise the comparisons do not change.
    fn join(&self, value_pairs: &[(Value, Value)], column: &mut [Cell]) -> Option<String> {
        let baseline = self.side(Some(&value_pairs.first()?.1));
        let compared_rows: Vec<usize> = (0..column.len()).filter(|row| column[*row].compared.is_some()).collect();
        let mut sides = vec![baseline];
        sides.extend(compared_rows.iter().map(|row| self.side(Some(&value_pairs[*row].0))));
        let mut all: Vec<&mut Side<'_>> = sides.iter_mut().collect();
        complete(&mut all, &self.question()).ok()?;
        let traits = (self.traits, &self.kinds);
        let alone: Vec<usize> = all.iter().map(|side| count_alone(side, &self.apart, traits)).collect();
        let _ = leave_out_equal(&mut all, &self.apart, traits);
        let is_fixed = sides.iter().zip(&alone).any(|(side, alone)| *alone < side.found.len());
        if compared_rows.len() < column.len() || self.repeats().is_some() || !sides.iter().all(Side::is_looked_at_once)
        {
            return None;
        }
        let ratio = self.compare.ratio;
        let scaled = |value: f64| if ratio { value.ln() } else { value };
        let values: Vec<Vec<(&Point, f64)>> = sides
            .iter()
            .map(|side| side.values().into_iter().map(|(point, value)| (point, scaled(value))).collect())
            .collect();
        let units: Vec<BTreeMap<Vec<String>, f64>> =
            values.iter().map(|values| unit_values(values, &self.apart, &self.kinds)).collect();
        if units.iter().any(|other| !other.keys().eq(units[0].keys())) {
            return None;
        }
        let rows: Vec<Vec<f64>> = units.iter().map(|values| values.values().copied().collect()).collect();
        let places: Vec<&Vec<String>> = units[0].keys().collect();
        let unit = SamplingUnit::of(&sides[0].found.iter().map(|found| found.point), &self.apart, &self.kinds, None);
        let cells: Vec<Cells> = values.iter().map(|values| unit.cells(values)).collect();
        let blocks = blocks(&rows, &places, &unit, &cells)?;
        if is_fixed && unit.repeats() {
            // Equal jobs are no evidence about the spread of the others.
            return Some(
                "the seed has no effect on some of the values, so each comparison has its own error".to_owned(),
            );
        }
        if blocks.is_uneven() {
            let uneven = "the values differ in their spread (Cochran's C), so each comparison has its own error";
            return Some(uneven.to_owned());
        }
        let size = sides.iter().map(Side::mean).sum::<f64>() / sides.len() as f64;
        let precision = relative(self.traits.precision, ratio.then_some(size));
        for (index, row) in compared_rows.iter().enumerate() {
            let cell = &mut column[*row];
            let (Some(estimate), Some(compared)) = (blocks.against(index + 1, 0, LEVEL, precision), &mut cell.compared)
            else {
                continue;
            };
            cell.open = estimate.p.is_none_or(|p| p >= 1.0 - LEVEL);
            compared.estimate = if ratio { estimate.exp() } else { estimate };
            compared.noise |= cell.open;
            cell.joint = true;
        }
        Some(format!(
            "intervals and p hold for the {} with {} at once (Dunnett, one error from {})",
            count(compared_rows.len(), "comparison"),
            value_pairs.first()?.1,
            count(blocks.blocks, "block"),
        ))
    }

    /// The noise floor: the difference between two measurements of the same job that 5 % of such differences exceed.
    fn floor(&self) -> Option<f64> {
        let repeats = self.repeats()?;
        let side = self.side(None);
        if self.compare.ratio && side.found.iter().any(|found| found.value <= 0.0) {
            return None;
        }
        let scaled = |value: f64| if self.compare.ratio { value.ln() } else { value };
        let (mut squares, mut freedom) = (0.0, 0.0);
        // The name of an imported run is not a setting.
        let is_own = |axis: &str| axis == repeats || self.kinds.identifies(axis);
        let mut groups: BTreeMap<Vec<String>, Vec<&Found<'_>>> = BTreeMap::new();
        for found in &side.found {
            groups.entry(place(found.point, is_own)).or_default().push(found);
        }
        for group in groups.into_values() {
            let mut repetitions: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            for found in without_copies(&group, self.traits) {
                let repetition = format!("{:?}", found.point.get(repeats));
                repetitions.entry(repetition).or_default().push(scaled(found.value));
            }
            let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
            let values: Vec<f64> = repetitions.into_values().map(mean).collect();
            let Some(Sample { n, sd: Some(sd), .. }) = Sample::new(&values) else { continue };
            let degrees = (n - 1) as f64;
            squares += sd * sd * degrees;
            freedom += degrees;
        }
        (freedom > 0.0).then(|| quantile(freedom, LEVEL) * (2.0 * squares / freedom).sqrt())
    }
}

/// A remark on the correlation of the pairs of a column, which decides the gain of pairing.
fn correlated(column: &[Cell], metric: &str) -> Option<String> {
    let correlations = || column.iter().filter_map(|cell| cell.correlation);
    let (least, most) = (correlations().reduce(f64::min)?, correlations().reduce(f64::max)?);
    let texts = [least, most].map(|correlation| format!("{correlation:.2}"));
    let range = if texts[0] == texts[1] { texts[0].clone() } else { texts.join(" to ") };
    let note =
        if least < 0.3 { ": pairs of seeds gain little where the correlation is near zero or negative" } else { "" };
    Some(format!("{}: values with equal seeds correlate by {range}{note}", clean(metric)))
}

fn notes(rows: &[TableRow], columns: &[Column], compare: &Compare, comparisons: usize) -> Vec<String> {
    let shown =
        || rows.iter().flat_map(|row| row.cells.iter().zip(columns)).filter(|(_, column)| column.show != Show::Odds);
    let counts: Vec<usize> = shown().filter_map(|(cell, _)| cell.sample).map(|sample| sample.n).collect();
    let mut notes = Vec::new();
    if let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) {
        let n = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let mut names: Vec<&str> = columns.iter().map(|column| column.metric.as_str()).collect();
        names.dedup();
        let what = if compare.ratio { "ratio of geometric means of" } else { "difference in" };
        let interval = if compare.ratio { "[95 % CI]" } else { "± 95 % CI" };
        let unpaired = shown().filter(|(cell, _)| cell.is_unpaired).count();
        let over = match counts.len() - unpaired {
            _ if unpaired == 0 => "over pairs",
            0 => "of samples that are not paired (Welch)",
            _ => "over pairs, or of samples where nothing pairs (Welch)",
        };
        notes.push(clean(&format!("{what} {}, {interval}, {over} (n = {n})", names.join(", "))).into_owned());
    }
    notes.extend(too_wide(rows, columns));
    match comparisons {
        0 => {}
        1 => {
            notes.push("p is the probability of a difference at least as large if there were no difference".to_owned());
        }
        several => notes.push(format!("p is corrected for {} (Holm)", count(several, "comparison"))),
    }
    let noise = |cell: &Cell| {
        cell.compared.is_some_and(|Compared { estimate: Estimate { p, .. }, noise }| noise && p.is_some())
    };
    if shown().any(|(cell, _)| noise(cell)) {
        notes.push("≈ not told apart from no difference, which does not mean equal".to_owned());
    }
    if let Some(region) = compare.equivalent {
        let region = if compare.ratio { format!("{} %", region * 100.0) } else { region.to_string() };
        notes.push(format!("odds: probability that the first value is less, equivalent (within {region}), more"));
    }
    notes
}
