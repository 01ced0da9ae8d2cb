//! Tables of power laws over sizes: the measured mean and the law at each size, the prediction at another size, and whether small
//! sizes rank the values of an axis as the largest does.

use sweep_job::{Unit, Value};

use super::{Made, jobs};
use crate::{
    analysis::{
        Cell, Column, Show, TableRow,
        aggregate::methods,
        claim::law::{BySize, least_sizes},
        evidence::{Side, Source},
        table::scale,
    },
    format::{clean, count, number},
    plan::resolved,
    recipe::{self, Analysis, Fit, brief},
    stats::{Estimate, LEVEL, PowerLaw, Sample, agreement},
};

/// Most decimals of exponents in notes.
const DECIMALS: usize = 4;

/// The request of a table.
type Request<'r> = (&'r recipe::Table, &'r Analysis, &'r Fit);

pub(super) fn fill(contents: &mut Made, request: Request<'_>, source: Source<'_>) {
    let (table, analysis, settings) = request;
    let axis = settings.axis.as_ref().map(|axis| axis.value.as_str());
    let methods = axis.map_or_else(Vec::new, |axis| methods(&analysis.of, axis, source));
    let methods: Vec<Option<Value>> = if axis.is_some() { methods.into_iter().map(Some).collect() } else { vec![None] };
    contents.axes = axis.into_iter().map(str::to_owned).chain([settings.x.value.clone()]).collect();
    let metrics: Vec<&str> = table.cells.iter().map(|cell| cell.value.as_str()).collect();
    // Rows are the sizes of all metrics.
    let mut by_metric: Vec<Vec<BySize>> = Vec::new();
    for metric in &metrics {
        by_metric
            .push(methods.iter().map(|method| by_size(request, source, metric, method.as_ref(), contents)).collect());
    }
    let mut rows: Vec<(usize, u64)> = Vec::new();
    for index in 0..methods.len() {
        let mut sizes: Vec<u64> = by_metric.iter().flat_map(|of_metric| of_metric[index].0.keys().copied()).collect();
        sizes.extend(settings.predict.map(f64::to_bits));
        sizes.sort_unstable();
        sizes.dedup();
        rows.extend(sizes.into_iter().map(|size| (index, size)));
    }
    let label = |(index, size): &(usize, u64)| {
        let method = methods[*index].as_ref().map(|method| clean(&method.to_string()).into_owned());
        method.into_iter().chain([Value::Float(f64::from_bits(*size)).to_string()]).collect()
    };
    contents.rows = rows.iter().map(|row| TableRow { labels: label(row), cells: Vec::new() }).collect();
    for (metric, of_metric) in metrics.iter().zip(&by_metric) {
        let unit = source.traits(analysis.of.step, metric).unit;
        let laws: Vec<Option<PowerLaw>> =
            of_metric.iter().map(|sizes| sizes.law(settings.predict, settings.constant)).collect();
        let measured = rows.iter().map(|(index, size)| measured(of_metric[*index].0.get(size)));
        push(contents, metric, unit, measured.collect());
        let predicted = rows.iter().map(|(index, size)| match &laws[*index] {
            Some(law) => cell(law.predict(f64::from_bits(*size), LEVEL), of_metric[*index].0.len()),
            None => Cell { points: 1, ..Cell::default() },
        });
        push(contents, &format!("{metric}, law"), unit, predicted.collect());
        for ((method, sizes), law) in methods.iter().zip(of_metric).zip(&laws) {
            contents.notes.push(note(request, metric, (method.as_ref(), sizes), law.as_ref()));
        }
        contents.notes.extend(ranks(&settings.x.value, metric, of_metric));
    }
    contents.notes.push("law: [95 % interval of the prediction of one more size with as many seeds]".to_owned());
}

fn push(contents: &mut Made, metric: &str, unit: Unit, cells: Vec<Cell>) {
    let show = Show::Interval;
    contents.columns.push(Column {
        point: Vec::new(),
        metric: metric.to_owned(),
        unit,
        scale: scale(metric, &cells, show, unit),
        show,
    });
    for (row, cell) in contents.rows.iter_mut().zip(cells) {
        row.cells.push(cell);
    }
}

fn cell(estimate: Estimate, n: usize) -> Cell {
    Cell {
        sample: Some(Sample { n, mean: estimate.value, sd: None }),
        estimate: Some(estimate),
        points: 1,
        ..Cell::default()
    }
}

fn measured(values: Option<&Vec<f64>>) -> Cell {
    match values.and_then(|values| Sample::new(values)) {
        Some(sample) => Cell { sample: Some(sample), ..cell(Estimate { p: None, ..sample.estimate() }, sample.n) },
        None => Cell { points: 1, ..Cell::default() },
    }
}

/// The measurements at each size. Missing results and jobs without a size are in the notes.
fn by_size(
    request: Request<'_>,
    source: Source<'_>,
    metric: &str,
    method: Option<&Value>,
    contents: &mut Made,
) -> BySize {
    let (_, analysis, settings) = request;
    let mut only = resolved(&source.study.recipe, &analysis.of.only);
    if let (Some(axis), Some(method)) = (&settings.axis, method) {
        only.push((&axis.value, vec![method.clone()]));
    }
    let side: Side<'_> = source.side(analysis.of.step, &only, metric, source.traits(analysis.of.step, metric));
    let by_key = jobs(analysis, source);
    let (sizes, without_size) =
        BySize::new(&side.found, &settings.x.value, &by_key, &source.kinds(&[analysis.of.step]), source);
    let lost = side.absent.len() + without_size;
    if lost > 0 {
        let (of, x) = (method.map_or(String::new(), |method| format!(" of {method}")), &settings.x.value);
        contents
            .notes
            .push(format!("{metric}: {}{of} left out: no result, or no `{x}` above zero", count(lost, "job")));
    }
    sizes
}

/// The law of a value of the axis in words, and whether its prediction was right.
fn note(
    request: Request<'_>,
    metric: &str,
    (method, sizes): (Option<&Value>, &BySize),
    law: Option<&PowerLaw>,
) -> String {
    let (_, _, settings) = request;
    let x = &settings.x.value;
    let of = method.map_or_else(|| metric.to_owned(), |method| format!("{metric} of {method}"));
    let Some(law) = law else {
        let least = least_sizes(settings.constant);
        return format!("{of}: no law, which needs {least} sizes and numbers above zero");
    };
    let as_text = |value: Option<f64>| value.map_or_else(String::new, |value| number(value, DECIMALS));
    let Estimate { value, low, high, .. } = law.exponent(LEVEL);
    let exponent = as_text(Some(value));
    let interval = match low.zip(high) {
        Some((low, high)) => format!("[{}, {}]", as_text(Some(low)), as_text(Some(high))),
        None => "(no interval: several constants fit these sizes)".to_owned(),
    };
    let constant = law.constant().map_or_else(String::new, |constant| format!("{} plus a part ", brief(constant)));
    let text = format!("{of}: {constant}in proportion to {x} to the power {exponent} {interval}");
    let Some(size) = settings.predict else { return text };
    let predicted = law.predict(size, LEVEL);
    let ends = predicted.low.zip(predicted.high);
    let verdict = match (sizes.mean(size), ends) {
        (Some(mean), Some((low, high))) => {
            let place = if low <= mean && mean <= high { "within" } else { "outside of" };
            let [size, mean, low, high] = [size, mean, low, high].map(brief);
            format!("at {size} it is {mean}, {place} the predicted [{low}, {high}]")
        }
        _ => format!("{} is predicted and not measured", brief(size)),
    };
    format!("{text}; {verdict}")
}

/// Whether each smaller size ranks the values of the axis as the largest does.
fn ranks(x: &str, metric: &str, of_metric: &[BySize]) -> Vec<String> {
    let Some(largest) = of_metric.iter().filter_map(|sizes| sizes.0.keys().max().copied()).max() else {
        return Vec::new();
    };
    let means =
        |size: u64| -> Option<Vec<f64>> { of_metric.iter().map(|sizes| sizes.mean(f64::from_bits(size))).collect() };
    let Some(large) = means(largest).filter(|_| of_metric.len() > 1) else { return Vec::new() };
    let smaller = of_metric[0].0.keys().copied().filter(|size| *size < largest);
    let rank = |size: u64| {
        let rank_agreement = agreement(&means(size)?, &large)?;
        Some(format!(
            "{} of {} as at {}: {} (Kendall's τ {:.2}, p = {:.3})",
            rank_agreement.concordant,
            count(large.len() * (large.len() - 1) / 2, "pair"),
            brief(f64::from_bits(largest)),
            brief(f64::from_bits(size)),
            rank_agreement.tau,
            rank_agreement.p
        ))
    };
    let texts: Vec<String> = smaller.filter_map(rank).collect();
    if texts.is_empty() { Vec::new() } else { vec![format!("{metric}: order at smaller {x}: {}", texts.join(", "))] }
}
