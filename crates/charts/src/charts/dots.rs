//! Scatter plots: one metric against another, optionally with the Pareto front.

use std::collections::BTreeMap;

use plotters::prelude::*;
use sweep_job::{Metric, Unit, same_metric};

use super::{
    Area, Canvas, Chart, Declaration, Dot, Drawn, INK, Kind, Mark, Role, Series, Spec, Ticks, builder, data, legend,
    marker,
    mean::Mean,
    mesh,
    span::{Span, visible},
};
use crate::{format::Scale, stats::Better};

pub(super) const SCATTER: Declaration = Declaration {
    word: "scatter",
    doc: "A scatter plot of one metric against another, with a dot for each job.",
    x: Some(Role::Metric),
    y: Some(Role::Metric),
    mark: Mark::Dot,
    scales: [true; 2],
    labels: [true; 2],
    narrow: true,
    data: Some(data::points),
    ..Declaration::NOTHING
};

pub(super) const PARETO: Declaration = Declaration {
    word: "pareto",
    doc: "A scatter plot with the Pareto front: a line along the dots that no other dot surpasses in both metrics.",
    best: true,
    ..SCATTER
};

/// The two numbers of a job with their units, if it has both.
pub(super) fn place(spec: &Spec, dot: &Dot<'_>) -> Option<[Metric; 2]> {
    let (x, y) = (dot.metrics.get(&spec.x)?, dot.metrics.get(&spec.y)?);
    (x.value.is_finite() && y.value.is_finite()).then_some([*x, *y])
}

/// The dots of each color, and the units of the axes.
pub(super) fn measured(chart: &Chart<'_>) -> (Vec<Series>, (Unit, Unit)) {
    let mut units = (Unit::One, Unit::One);
    let mut series = Vec::new();
    for (name, dots) in chart.by_color() {
        let mut points = Vec::new();
        for [x, y] in dots.into_iter().filter_map(|dot| place(chart.spec, dot)) {
            units = (x.unit, y.unit);
            points.push((x.value, Mean::of_one(y.value)));
        }
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    (series, units)
}

pub(super) fn draw<B: Canvas>(chart: &Chart<'_>, root: &Area<B>) -> Drawn {
    let spec = chart.spec;
    let (series, units) = measured(chart);
    let points = || series.iter().flat_map(|series| &series.points);
    let spans = Span::new(points().map(|(x, _)| *x), false, &spec.look.x)
        .and_then(|x| Ok((x, Span::new(points().map(|(_, sample)| sample.mean), false, &spec.look.y)?)));
    let (x, y) = match spans {
        Ok(spans) => spans,
        Err(empty) => return Ok(Err(empty)),
    };
    let (x_scale, y_scale) =
        (Scale::of_metric(&spec.x, x.reach(), units.0), Scale::of_metric(&spec.y, y.reach(), units.1));

    let mut plot = builder(root, chart, &series).build_cartesian_2d(x.clone(), y.clone())?;
    let names = (chart.x_metric(x_scale, units.0), chart.y_metric(y_scale, units.1));
    mesh(&mut plot, chart, names, Ticks { x: Some(x_scale), y: y_scale })?;
    for (index, series) in series.iter().enumerate() {
        for (at, sample) in series.points.iter().filter(|(at, sample)| x.holds(*at) && y.holds(sample.mean)) {
            marker(root, chart, index, plot.backend_coord(&(*at, sample.mean)))?;
        }
    }
    if spec.kind == Kind::Pareto {
        let better = [&spec.x, &spec.y].map(|axis| better(spec, axis, if *axis == spec.x { units.0 } else { units.1 }));
        let means: Vec<(f64, f64)> = points().map(|(x, sample)| (*x, sample.mean)).collect();
        for piece in visible(&steps(&front(&means, better), better), &x, &y) {
            plot.draw_series(LineSeries::new(piece, INK.stroke_width(1)))?;
        }
    }
    legend(root, chart, &series)?;
    Ok(Ok(()))
}

/// The better direction of a metric: the direction in the recipe, else of its unit, else the smaller values.
fn better(spec: &Spec, metric: &str, unit: Unit) -> Better {
    let direction = spec.best.iter().find(|(name, _)| same_metric(name, metric)).map(|(_, better)| *better);
    direction.unwrap_or_else(|| Better::of(unit)).unwrap_or(Better::Less)
}

/// The dots that no other dot surpasses in both directions, from left to right.
fn front(dots: &[(f64, f64)], [x, y]: [Better; 2]) -> Vec<(f64, f64)> {
    let beats = |better: Better, of: f64, than: f64| match better {
        Better::Less => of < than,
        Better::More => of > than,
    };
    let beaten = |dot: &(f64, f64)| {
        dots.iter().any(|other| {
            let (first, second) = (beats(x, other.0, dot.0), beats(y, other.1, dot.1));
            (first && (second || other.1 == dot.1)) || (second && other.0 == dot.0)
        })
    };
    let mut front: Vec<(f64, f64)> = dots.iter().copied().filter(|dot| !beaten(dot)).collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    front.dedup();
    front
}

/// The border of the region that the front dominates, as a staircase.
fn steps(front: &[(f64, f64)], [x, _]: [Better; 2]) -> Vec<(f64, f64)> {
    let mut stair: Vec<(f64, f64)> = front.first().copied().into_iter().collect();
    for two in front.windows(2) {
        // If smaller values of x are better, a horizontal line leads to the next dot, otherwise a vertical one.
        stair.push(if x == Better::Less { (two[1].0, two[0].1) } else { (two[0].0, two[1].1) });
        stair.push(two[1]);
    }
    stair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_what_nothing_beats() {
        let dots = [(1.0, 5.0), (2.0, 3.0), (3.0, 4.0), (4.0, 1.0), (4.0, 2.0)];
        assert_eq!(front(&dots, [Better::Less, Better::Less]), [(1.0, 5.0), (2.0, 3.0), (4.0, 1.0)]);
        assert_eq!(front(&dots, [Better::More, Better::More]), [(1.0, 5.0), (3.0, 4.0), (4.0, 2.0)]);
        assert_eq!(
            steps(&[(1.0, 5.0), (2.0, 3.0)], [Better::Less, Better::Less]),
            [(1.0, 5.0), (2.0, 5.0), (2.0, 3.0)]
        );
        assert_eq!(front(&[], [Better::Less, Better::Less]), []);
    }
}
