//! Tables of power laws over sizes: the measured mean and the law at each size, the prediction at another size, and a comparison of the
//! ranks at small sizes with the ranks at the largest size.

use sweep_job::{Unit, Value};

use super::{Made, jobs};
use crate::{
    analysis::{
        Cell, Column, Show, TableRow,
        aggregate::methods,
        claim::law::{BySize, least_sizes},
        evidence::{Question, Side, Silence, Source, like},
        no_interval::NoInterval,
        pairs::apart,
        table::scale,
    },
    format::{clean, count, number},
    plan::resolved,
    recipe::{self, Analysis, Fit, brief},
    stats::{Estimate, LEVEL, PowerLaw, Sample, agreement},
};

/// Maximum number of decimals of exponents in notes.
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
    let mut by_metric: Vec<Vec<OfMethod<'_>>> = Vec::new();
    for metric in &metrics {
        by_metric
            .push(methods.iter().map(|method| of_method(request, source, metric, method.as_ref(), contents)).collect());
    }
    let mut rows: Vec<(usize, u64)> = Vec::new();
    for index in 0..methods.len() {
        let mut sizes: Vec<u64> = by_metric.iter().flat_map(|of_metric| of_metric[index].sizes.keys()).collect();
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
            of_metric.iter().map(|method| method.law(settings.predict, settings.constant)).collect();
        let measured = rows.iter().map(|(index, size)| of_metric[*index].measured(*size));
        push(contents, metric, unit, measured.collect());
        let predicted = rows.iter().map(|(index, size)| match &laws[*index] {
            Some(law) => {
                let method = &of_metric[*index];
                cell(law.predict(f64::from_bits(*size), method.level()), method.sizes.keys().len())
            }
            None => Cell { points: 1, ..Cell::default() },
        });
        push(contents, &format!("{metric}, law"), unit, predicted.collect());
        let looks = of_metric.iter().find_map(|of| of.sizes.sides().first()?.looks.level(1, false).words());
        contents
            .notes
            .extend(looks.map(|looks| format!("{metric}: intervals allow for looks at the results: {looks}")));
        for ((method, numbers), law) in methods.iter().zip(of_metric).zip(&laws) {
            contents.notes.push(note(request, metric, (method.as_ref(), numbers), law.as_ref()));
            let remarks = numbers.sizes.units.iter().chain(&numbers.sizes.uneven);
            contents.notes.extend(remarks.map(|remark| format!("{}: {remark}", about(metric, method.as_ref()))));
        }
        contents.notes.extend(ranks(&settings.x.value, metric, of_metric));
    }
    contents
        .notes
        .push("law: [95 % interval of the prediction of one more size with the same number of seeds]".to_owned());
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
        // A mean has its own reason.
        no_interval: estimate.low.is_none().then_some(NoInterval::Unbounded),
        sample: Some(Sample { n, mean: estimate.value, sd: None }),
        estimate: Some(estimate),
        points: 1,
        ..Cell::default()
    }
}

/// The measurements of a value of the axis.
struct OfMethod<'a> {
    sizes: BySize<'a>,
    /// The reason why the sizes are not comparable: times that were not measured in turns.
    unlike: Option<String>,
}

impl OfMethod<'_> {
    /// The level of the law, which allows for all looks at the results, as the level of a claim does.
    fn level(&self) -> f64 {
        self.sizes.sides().first().map_or(LEVEL, |side| side.looks.level(1, false).confidence)
    }

    /// The mean at a size, over the units of a verdict.
    fn measured(&self, size: u64) -> Cell {
        match self.sizes.summary(size) {
            Some(summary) => Cell {
                sample: Some(summary.sample),
                no_interval: summary.no_interval.clone(),
                ..cell(summary.estimate, summary.sample.n)
            },
            None => Cell { points: 1, ..Cell::default() },
        }
    }

    fn law(&self, predict: Option<f64>, with_constant: bool) -> Option<PowerLaw> {
        if self.unlike.is_some() { None } else { self.sizes.law(predict, with_constant) }
    }
}

/// The measurements at each size. Missing results and jobs without a size are in the notes.
fn of_method<'a>(
    request: Request<'_>,
    source: Source<'a>,
    metric: &str,
    method: Option<&Value>,
    contents: &mut Made,
) -> OfMethod<'a> {
    let (table, analysis, settings) = request;
    let mut only = resolved(&source.study.recipe, &analysis.of.only);
    if let (Some(axis), Some(method)) = (&settings.axis, method) {
        only.push((&axis.value, vec![method.clone()]));
    }
    let traits = source.traits(analysis.of.step, metric);
    let side: Side<'_> = source.side(analysis.of.step, &only, metric, traits);
    let (kinds, rules) = (source.kinds(&[analysis.of.step]), table.rules);
    let axes: Vec<&str> = settings.axis.iter().chain([&settings.x]).map(|axis| axis.value.as_str()).collect();
    let apart = apart(&source.study.recipe.steps[analysis.of.step], &axes);
    let question = Question { traits, apart, kinds, repeats: None, ratio: false, unpaired: true, rules };
    let sizes = BySize::new(&side, &settings.x.value, &jobs(analysis, source), &question, source);
    let unlike = match like(&sizes.sides(), traits, rules) {
        Err(Silence::Unlike(reason)) => Some(reason),
        _ => None,
    };
    let lost = side.absent.len() + sizes.without_size;
    if lost > 0 {
        let (of, x) = (method.map_or(String::new(), |method| format!(" of {method}")), &settings.x.value);
        contents
            .notes
            .push(format!("{metric}: {}{of} left out: no result, or no `{x}` above zero", count(lost, "job")));
    }
    OfMethod { sizes, unlike }
}

/// A metric of a value of the axis.
fn about(metric: &str, method: Option<&Value>) -> String {
    method.map_or_else(|| metric.to_owned(), |method| format!("{metric} of {method}"))
}

/// The law of a value of the axis in words, with the check of its prediction.
fn note(
    request: Request<'_>,
    metric: &str,
    (method, numbers): (Option<&Value>, &OfMethod<'_>),
    law: Option<&PowerLaw>,
) -> String {
    let (_, _, settings) = request;
    let x = &settings.x.value;
    let of = about(metric, method);
    if let Some(reason) = &numbers.unlike {
        return format!("{of}: no law: {reason}; `conditions: any` fits a law nevertheless");
    }
    let Some(law) = law else {
        let least = least_sizes(settings.constant);
        return format!("{of}: no law: a fit needs {least} sizes and numbers above zero");
    };
    let as_text = |value: Option<f64>| value.map_or_else(String::new, |value| number(value, DECIMALS));
    let Estimate { value, low, high, .. } = law.exponent(numbers.level());
    let exponent = as_text(Some(value));
    let interval = match low.zip(high) {
        Some((low, high)) => format!("[{}, {}]", as_text(Some(low)), as_text(Some(high))),
        None => "(no interval: several constants fit these sizes)".to_owned(),
    };
    let constant = law.constant().map_or_else(String::new, |constant| format!("{} plus a part ", brief(constant)));
    let text = format!("{of}: {constant}in proportion to {x} to the power {exponent} {interval}");
    let Some(size) = settings.predict else { return text };
    let predicted = law.predict(size, numbers.level());
    let ends = predicted.low.zip(predicted.high);
    let verdict = match (numbers.sizes.mean(size), ends) {
        (Some(mean), Some((low, high))) => {
            let place = if low <= mean && mean <= high { "within" } else { "outside of" };
            let [size, mean, low, high] = [size, mean, low, high].map(brief);
            format!("at {size} it is {mean}, {place} the predicted [{low}, {high}]")
        }
        _ => format!("{} is predicted and not measured", brief(size)),
    };
    format!("{text}; {verdict}")
}

/// Notes that compare the ranks of the axis's values at each smaller size with the ranks at the largest size.
fn ranks(x: &str, metric: &str, of_metric: &[OfMethod<'_>]) -> Vec<String> {
    let Some(largest) = of_metric.iter().filter_map(|of| of.sizes.keys().max()).max() else {
        return Vec::new();
    };
    let is_ranked = of_metric.len() > 1 && of_metric.iter().all(|of| of.unlike.is_none());
    let means =
        |size: u64| -> Option<Vec<f64>> { of_metric.iter().map(|of| of.sizes.mean(f64::from_bits(size))).collect() };
    let Some(large) = means(largest).filter(|_| is_ranked) else { return Vec::new() };
    let smaller = of_metric[0].sizes.keys().filter(|size| *size < largest);
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
