//! A warning about points that a figure or a table leaves out because they lack its axis.

use std::collections::BTreeSet;

use crate::plan::{JobId, Point, resolved, selected};
use crate::recipe::{Analysis, AnalysisKind, Collector, ComparedValues, Recipe, Selection, Spanned, TableKind};

/// An axis by which a figure or a table arranges points.
struct Shown<'r> {
    /// `figure` or `table`.
    kind: &'static str,
    name: &'r Spanned<String>,
    step: usize,
    only: &'r Selection,
    axis: &'r str,
}

/// Warns about points that a figure or a table leaves out because they have no value on its axis.
pub(in crate::plan) fn absent(recipe: &Recipe, steps: &[Vec<(Point, JobId)>], problems: &mut Collector) {
    let figures = recipe.figures.iter().flat_map(|figure| {
        let axes: BTreeSet<&str> = [figure.chart.x.as_str(), figure.chart.y.as_str()].into();
        let (name, step, only) = (&figure.name, figure.from.value, &figure.only);
        axes.into_iter().map(move |axis| Shown { kind: "figure", name, step, only, axis })
    });
    let tables = recipe.tables.iter().filter_map(|table| {
        let (of, axis) = match &table.kind {
            TableKind::Compare(compare) if matches!(compare.values, ComparedValues::Baseline(_)) => {
                (&compare.of, &compare.axis)
            }
            TableKind::Aggregate(aggregate) => (&aggregate.of, &aggregate.axis),
            TableKind::Analysis(Analysis { of, kind: AnalysisKind::Curve(curve) }) => (of, &curve.axis),
            // The other kinds show points without an axis, name their values, or fail without a level.
            _ => return None,
        };
        Some(Shown { kind: "table", name: &table.name, step: of.step, only: &of.only, axis: &axis.value })
    });
    for Shown { kind, name, step, only, axis } in figures.chain(tables) {
        let only = resolved(recipe, only);
        let points: Vec<&Point> =
            steps[step].iter().map(|(point, _)| point).filter(|point| selected(point, &only)).collect();
        let lacking = points.iter().filter(|point| point.get(axis).is_none()).count();
        // A name that all points lack is not an axis of the step, but a metric or `iteration`.
        if lacking > 0 && lacking < points.len() {
            let message = format!(
                "{kind} `{}` leaves out {lacking} of {} points of `{}`, which have no axis `{axis}`",
                name.value,
                points.len(),
                recipe.steps[step].name.value
            );
            let help =
                format!("give all points a value of `{axis}`, or select the points with it: `where: {{ {axis}: … }}`");
            problems.warn(&recipe.sources, name.span, message, help);
        }
    }
}
