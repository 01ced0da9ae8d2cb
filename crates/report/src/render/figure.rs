//! Figures of a recipe: the finished jobs of a step, as a chart.

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeMap, HashMap, HashSet},
};

use sweep_job::Value;

use crate::{
    analysis::{FigureUnits, estimates},
    charts::{Chart, Data, Dot, Empty, End, Kind, Means},
    format::clean,
    plan::{JobId, Point, Study, resolved, selected},
    recipe,
    record::Record,
    store::Measured,
};

/// A drawn figure.
#[derive(Debug)]
pub struct Figure {
    /// Its name, which names its file.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The SVG, or the reason why there is nothing to draw.
    pub svg: Result<String, Empty>,
    /// The figure as PNG, twice as large.
    pub png: Option<Vec<u8>>,
    /// The figure as PDF, for a paper.
    pub pdf: Option<Vec<u8>>,
    /// Its numbers, for kinds that are interactive on the page.
    pub data: Option<Data>,
}

/// The finished part of a study.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done<'a> {
    pub(super) measured: &'a BTreeMap<JobId, Measured>,
    /// The records that have curves to draw.
    pub(super) records: &'a BTreeMap<JobId, Cow<'a, Record>>,
    /// The last jobs of configurations that a search stopped, by their jobs that did not run.
    pub(super) reached: &'a HashMap<JobId, JobId>,
}

impl Figure {
    /// Draws a figure from the finished jobs.
    pub(super) fn new(figure: &recipe::Figure, study: &Study, done: Done<'_>) -> Self {
        let Done { measured, records, reached } = done;
        let spec = &figure.chart;
        let mut jobs = HashSet::new();
        let mut dots = Vec::new();
        let mut dot_points = Vec::new();
        for (point, job) in points(figure, study) {
            // Points that are the same job are one measurement.
            let last_job = reached.get(job).filter(|_| spec.has_curves());
            let job = last_job.unwrap_or(job);
            let Some(measured) = measured.get(job).filter(|_| jobs.insert(*job)) else { continue };
            // A number in the legend needs the name of its axis.
            let color = spec.color.as_ref().and_then(|axis| {
                let value = point.get(axis)?;
                let name = match value {
                    Value::Text(text) if text.is_empty() => "\"\"".to_owned(),
                    Value::Text(text) => text.clone(),
                    value => format!("{axis}={value}"),
                };
                Some(clean(&name).into_owned())
            });
            dot_points.push(point);
            dots.push(Dot {
                index: dots.len(),
                name: clean(&point.to_string()).into_owned(),
                color: color.unwrap_or_default(),
                x: point.get(&spec.x),
                y: point.get(&spec.y),
                axes: if spec.has_configurations() {
                    point.values.iter().map(|(axis, value)| (axis.as_str(), &value.value)).collect()
                } else {
                    Vec::new()
                },
                metrics: &measured.metrics,
                curves: records.get(job).map(|record| &record.outcome.curves),
                started: measured.started,
                seconds: measured.seconds,
                ended: match last_job {
                    Some(_) => Some(End::Stopped),
                    None if spec.has_curves() => measured.diverged(&spec.y).map(|_| End::Diverged),
                    None => None,
                },
            });
        }
        let title = clean(figure.title.as_ref().unwrap_or(&figure.name.value)).into_owned();
        let effects = figure.effects.as_ref();
        let estimates = effects.map_or_else(Vec::new, |effects| estimates(study, effects, &spec.x, measured));
        let step = &study.recipe.steps[figure.from.value];
        let better = spec.better(|| study.recipe.better(step, spec.shown_metric()));
        let units = FigureUnits::new(study, figure.from.value);
        let means = Means::new(|jobs: &[usize]| units.mean_over(jobs.iter().map(|job| dot_points[*job]).collect()));
        let chart = Chart { spec, title: &title, better, dots, estimates, means, importance: OnceCell::new() };
        let svg = chart.svg();
        let png = svg.is_ok().then(|| chart.png()).flatten();
        let pdf = svg.is_ok().then(|| chart.pdf()).flatten();
        let step = &study.recipe.steps[figure.from.value].name.value;
        let data = svg.is_ok().then(|| chart.data()).flatten().map(|data| data.of_step(&clean(step)));
        drop(chart);
        Self { name: figure.name.value.clone(), title, svg, png, pdf, data }
    }
}

/// The points that a figure shows, with their jobs.
pub(super) fn points<'s>(
    figure: &recipe::Figure,
    study: &'s Study,
) -> impl Iterator<Item = &'s (Point, JobId)> + use<'s> {
    let only = resolved(&study.recipe, &figure.only);
    let points = study.steps[figure.from.value].iter().filter(|(point, _)| selected(point, &only));
    points.collect::<Vec<_>>().into_iter()
}

/// The figures of a study that will be empty for any results, each with the reason. `counts` is true for jobs that have a result or will
/// have one.
pub fn empty_figures(study: &Study, counts: impl Fn(JobId) -> bool) -> Vec<(&str, Empty)> {
    let empty = |figure: &recipe::Figure| {
        let step = &study.recipe.steps[figure.from.value];
        let points: Vec<&Point> = points(figure, study).filter(|(_, id)| counts(*id)).map(|(point, _)| point).collect();
        // A search chooses further points.
        if step.search.is_some() {
            return None;
        }
        if points.is_empty() {
            return Some(Empty::NoJobs);
        }
        let varies = |axis: &str| {
            let values: HashSet<String> =
                points.iter().filter_map(|point| Some(point.get(axis)?.to_string())).collect();
            values.len() > 1
        };
        let compares = match figure.chart.kind {
            Kind::Line if !figure.chart.has_curves() => varies(&figure.chart.x),
            Kind::Slice => varies(&figure.chart.x),
            Kind::Parallel | Kind::Importance => step.axes().into_iter().any(|axis| axis != "seed" && varies(axis)),
            _ => true,
        };
        (!compares).then_some(Empty::NoVariation)
    };
    study.recipe.figures.iter().filter_map(|figure| Some((figure.name.value.as_str(), empty(figure)?))).collect()
}
