//! Figures as SVG: curves over iterations, bars by an axis, dots of one metric against another.
//!
//! The colours are those of Okabe and Ito, which colour-blind people tell apart; lines differ in their dashes and dots
//! in their shape, too, so that a figure printed in grey can be read. The ground is white whatever surrounds it.

use std::collections::{BTreeMap, HashSet};

use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Unit, Value};

use super::stats::Sample;
use crate::{
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{self, FigureKind},
    store::Record,
    text::clean,
    ui::{Scale, decimals, number},
};

/// A drawn figure.
#[derive(Debug)]
pub struct Figure {
    /// Its name, which names its file.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The SVG; `None` while there is nothing to draw.
    pub svg: Option<String>,
}

/// Whether there was anything to draw. None of the errors can happen to a text in memory, but the library's interface has
/// them.
type Drawn = Result<bool, Box<dyn std::error::Error>>;
type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Chart<'c, 's> = ChartContext<'c, SVGBackend<'s>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

const SIZE: (u32, u32) = (760, 460);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(221, 221, 221);
/// Okabe and Ito (2008), without the yellow, which is too light for lines.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// Lengths of dash and gap in pixels; `None` is a whole line.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((8, 4)), Some((3, 3)), Some((14, 4))];

/// Things of one colour.
struct Series {
    name: String,
    /// For lines: iteration and the curve's sample there. For dots: their two coordinates, as samples of one.
    points: Vec<(f64, Sample)>,
    /// For bars: by the index of the group.
    bars: BTreeMap<usize, Sample>,
}

/// A job's place in a figure.
struct Dot<'a> {
    point: &'a Point,
    record: &'a Record,
}

impl Figure {
    /// Draws a figure from what is done.
    pub(super) fn new(figure: &recipe::Figure, study: &Study, records: &BTreeMap<JobId, Record>) -> Self {
        let only = resolved(&study.recipe, &figure.only);
        let mut jobs = HashSet::new();
        let mut dots = Vec::new();
        for (point, job) in study.steps[figure.from.value].iter().filter(|(point, _)| selected(point, &only)) {
            // Points that are the same job are one measurement.
            if jobs.insert(*job) {
                dots.extend(records.get(job).map(|record| Dot { point, record }));
            }
        }
        let title = clean(figure.title.as_ref().unwrap_or(&figure.name.value)).into_owned();
        let mut svg = String::new();
        let drawn = match figure.kind {
            FigureKind::Line => lines(figure, &title, &dots, &mut svg),
            FigureKind::Bar => bars(figure, &title, &dots, &mut svg),
            FigureKind::Scatter => scatter(figure, &title, &dots, &mut svg),
        };
        let svg = matches!(drawn, Ok(true)).then_some(svg);
        Self { name: figure.name.value.clone(), title, svg }
    }
}

/// The dots of each colour, in the order in which the colours come.
fn by_color<'d, 'a>(figure: &recipe::Figure, dots: &'d [Dot<'a>]) -> Vec<(String, Vec<&'d Dot<'a>>)> {
    let mut groups: Vec<(String, Vec<&Dot<'_>>)> = Vec::new();
    for dot in dots {
        let value = figure.color.as_ref().and_then(|axis| dot.point.get(&axis.value));
        let name = value.map_or_else(String::new, |value| clean(&value.to_string()).into_owned());
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(dot),
            None => groups.push((name, vec![dot])),
        }
    }
    groups
}

fn lines(figure: &recipe::Figure, title: &str, dots: &[Dot<'_>], svg: &mut String) -> Drawn {
    let mut unit = Unit::One;
    let mut series = Vec::new();
    for (name, group) in by_color(figure, dots) {
        let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for curve in group.iter().filter_map(|dot| dot.record.outcome.curves.get(&figure.y.value)) {
            unit = curve.unit;
            for (iteration, value) in curve.at.iter().zip(&curve.values).filter(|(_, value)| value.is_finite()) {
                at.entry(*iteration).or_default().push(*value);
            }
        }
        let points = at.iter().filter_map(|(x, values)| Some((*x as f64, Sample::new(values)?))).collect();
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    let ends = |of: &dyn Fn(&Sample) -> f64| -> Vec<f64> {
        series.iter().flat_map(|series| series.points.iter().map(|(_, sample)| of(sample))).collect()
    };
    let half = |sample: &Sample| half(figure, sample);
    let (low, high) = (ends(&|sample| sample.mean - half(sample)), ends(&|sample| sample.mean + half(sample)));
    let Some((bottom, top)) = range(low.iter().chain(&high).copied(), false) else { return Ok(false) };
    let scale = Scale::of(top.abs().max(bottom.abs()), unit);
    let right = series.iter().flat_map(|series| &series.points).map(|(x, _)| *x).fold(1.0, f64::max);

    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = builder(&root, title, &series).build_cartesian_2d(0.0..right, bottom..top)?;
    let whole = Scale { factor: 1.0, suffix: "" };
    let y_name = heading(&figure.y.value, scale, unit);
    mesh(&mut chart, "iteration", &y_name, Ticks { x: Some(whole), y: scale })?;
    for (index, series) in series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        if figure.band && series.points.iter().any(|(_, sample)| sample.sd.is_some()) {
            let upper = series.points.iter().map(|(x, sample)| (*x, sample.mean + half(sample)));
            let lower = series.points.iter().rev().map(|(x, sample)| (*x, sample.mean - half(sample)));
            let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
            chart.draw_series(std::iter::once(Polygon::new(outline, color.mix(0.18).filled())))?;
        }
        let points: Vec<(f64, f64)> = series.points.iter().map(|(x, sample)| (*x, sample.mean)).collect();
        let style = color.stroke_width(2);
        match DASHES[index % DASHES.len()] {
            None => drop(chart.draw_series(LineSeries::new(points, style))?),
            Some((dash, gap)) => drop(chart.draw_series(DashedLineSeries::new(points, dash, gap, style))?),
        }
    }
    legend(&root, figure.kind, &series)?;
    root.present()?;
    Ok(true)
}

fn bars(figure: &recipe::Figure, title: &str, dots: &[Dot<'_>], svg: &mut String) -> Drawn {
    let mut groups: Vec<&Value> = Vec::new();
    let mut unit = Unit::One;
    let mut series = Vec::new();
    for (name, dots) in by_color(figure, dots) {
        let mut values: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for dot in dots {
            let metric = dot.record.outcome.metrics.get(&figure.y.value);
            let (Some(metric), Some(group)) = (metric, dot.point.get(&figure.x.value)) else { continue };
            unit = metric.unit;
            let index = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            });
            values.entry(index).or_default().push(metric.value);
        }
        let bars = values.iter().filter_map(|(group, values)| Some((*group, Sample::new(values)?))).collect();
        series.push(Series { name, points: Vec::new(), bars });
    }
    let half = |sample: &Sample| half(figure, sample);
    let ends = series
        .iter()
        .flat_map(|series| series.bars.values())
        .flat_map(|sample| [sample.mean - half(sample), sample.mean + half(sample)]);
    let ends: Vec<f64> = ends.collect();
    if ends.is_empty() {
        return Ok(false);
    }
    // A bar begins at zero, or its length means nothing.
    let Some((bottom, top)) = range(ends.into_iter().chain([0.0]), true) else { return Ok(false) };
    let scale = Scale::of(top.abs().max(bottom.abs()), unit);

    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = builder(&root, title, &series).build_cartesian_2d(0.0..groups.len() as f64, bottom..top)?;
    let y_name = heading(&figure.y.value, scale, unit);
    mesh(&mut chart, &clean(&figure.x.value), &y_name, Ticks { x: None, y: scale })?;
    for (index, group) in groups.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(index as f64 + 0.5, bottom));
        let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(clean(&group.to_string()).into_owned(), (x, y + 6), style))?;
    }
    // The bars of a group share three quarters of its room.
    let width = 0.75 / series.len() as f64;
    for (index, series) in series.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let left = |group: usize| group as f64 + 0.125 + width * index as f64;
        chart.draw_series(series.bars.iter().map(|(group, sample)| {
            let (left, right) = (left(*group) + 0.06 * width, left(*group) + 0.94 * width);
            Rectangle::new([(left, 0.0), (right, sample.mean)], color.mix(0.85).filled())
        }))?;
        chart.draw_series(series.bars.iter().filter(|(_, sample)| half(sample) > 0.0).map(|(group, sample)| {
            let (x, half) = (left(*group) + width / 2.0, half(sample));
            let (low, high) = (sample.mean - half, sample.mean + half);
            ErrorBar::new_vertical(x, low, sample.mean, high, INK.stroke_width(1), 8)
        }))?;
    }
    legend(&root, figure.kind, &series)?;
    root.present()?;
    Ok(true)
}

fn scatter(figure: &recipe::Figure, title: &str, dots: &[Dot<'_>], svg: &mut String) -> Drawn {
    let mut units = (Unit::One, Unit::One);
    let mut series = Vec::new();
    for (name, dots) in by_color(figure, dots) {
        let mut points = Vec::new();
        for dot in dots {
            let metrics = &dot.record.outcome.metrics;
            let (Some(x), Some(y)) = (metrics.get(&figure.x.value), metrics.get(&figure.y.value)) else { continue };
            units = (x.unit, y.unit);
            points.extend(Sample::new(&[y.value]).map(|sample| (x.value, sample)));
        }
        series.push(Series { name, points, bars: BTreeMap::new() });
    }
    let points = || series.iter().flat_map(|series| &series.points);
    let Some((left, right)) = range(points().map(|(x, _)| *x), false) else { return Ok(false) };
    let Some((bottom, top)) = range(points().map(|(_, sample)| sample.mean), false) else { return Ok(false) };
    let (x_scale, y_scale) =
        (Scale::of(right.abs().max(left.abs()), units.0), Scale::of(top.abs().max(bottom.abs()), units.1));

    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = builder(&root, title, &series).build_cartesian_2d(left..right, bottom..top)?;
    let names = (heading(&figure.x.value, x_scale, units.0), heading(&figure.y.value, y_scale, units.1));
    mesh(&mut chart, &names.0, &names.1, Ticks { x: Some(x_scale), y: y_scale })?;
    for (index, series) in series.iter().enumerate() {
        for (x, sample) in &series.points {
            marker(&root, index, chart.backend_coord(&(*x, sample.mean)))?;
        }
    }
    legend(&root, figure.kind, &series)?;
    root.present()?;
    Ok(true)
}

// ---- What all of them have ------------------------------------------------------------------------------------------

/// How the numbers along the edges are shown; `None` shows none.
#[derive(Clone, Copy)]
struct Ticks {
    x: Option<Scale>,
    y: Scale,
}

/// Half the width of the interval that is drawn around a mean.
fn half(figure: &recipe::Figure, sample: &Sample) -> f64 {
    if figure.band { sample.half_width().unwrap_or(0.0) } else { 0.0 }
}

/// The range of some numbers with a little room, at zero without it; `None` if there are none.
fn range(values: impl Iterator<Item = f64>, from_zero: bool) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return None;
    }
    // Numbers that are too large to be told apart from infinity cannot be drawn.
    if !(high - low).is_finite() || low.abs().max(high.abs()) > f64::MAX / 4.0 {
        return None;
    }
    let room = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.1).max(1e-9) };
    let stays = |end: f64| from_zero && end == 0.0;
    Some((if stays(low) { low } else { low - room }, if stays(high) && low < 0.0 { high } else { high + room }))
}

fn builder<'b, 's>(root: &'b Area<'s>, title: &str, series: &[Series]) -> ChartBuilder<'b, 'b, SVGBackend<'s>> {
    let mut builder = ChartBuilder::on(root);
    builder.margin(14).margin_right(legend_width(series)).x_label_area_size(48).y_label_area_size(72);
    builder.caption(title, (FONT, 17).into_font().color(&INK));
    builder
}

fn mesh(chart: &mut Chart<'_, '_>, x_name: &str, y_name: &str, ticks: Ticks) -> Result<(), Box<dyn std::error::Error>> {
    let x_text = |value: &f64| ticks.x.map_or_else(String::new, |scale| tick(*value, scale));
    let y_text = |value: &f64| tick(*value, ticks.y);
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).bold_line_style(FAINT).axis_style(INK);
    mesh.x_label_formatter(&x_text).y_label_formatter(&y_text).x_desc(x_name).y_desc(y_name);
    mesh.x_labels(if ticks.x.is_some() { 8 } else { 0 }).y_labels(8);
    mesh.label_style((FONT, 13).into_font().color(&INK));
    mesh.draw()?;
    Ok(())
}

/// Names the colours, to the right of the plot, where no data is.
fn legend(root: &Area<'_>, kind: FigureKind, series: &[Series]) -> Result<(), Box<dyn std::error::Error>> {
    let left = pixels(SIZE.0) - legend_width(series) + 12;
    let rows = (SIZE.1 as usize - 52) / 22;
    for (index, Series { name, .. }) in series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
        if index + 1 == rows && series.len() > rows {
            let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
            let more = format!("and {} more", series.len() - index);
            root.draw(&Text::new(more, (left, 52 + 22 * pixels(index)), style))?;
            break;
        }
        let color = COLORS[index % COLORS.len()];
        let (x, y) = (left, 52 + 22 * pixels(index));
        match kind {
            FigureKind::Line => {
                let (dash, gap) = DASHES[index % DASHES.len()].unwrap_or((26, 0));
                let mut start = 0;
                while start < 26 {
                    let end = (start + dash).min(26);
                    root.draw(&PathElement::new([(x + start, y), (x + end, y)], color.stroke_width(2)))?;
                    start += dash + gap;
                }
            }
            FigureKind::Bar => root.draw(&Rectangle::new([(x, y - 6), (x + 26, y + 6)], color.mix(0.85).filled()))?,
            FigureKind::Scatter => marker(root, index, (x + 13, y))?,
        }
        let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(name.clone(), (x + 34, y), style))?;
    }
    Ok(())
}

/// Room for the names of the colours.
fn legend_width(series: &[Series]) -> i32 {
    let longest = series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    if longest == 0 { 24 } else { 12 + 34 + 8 * pixels(longest.min(40)) }
}

/// Draws a dot, in the shape that goes with its colour.
fn marker(root: &Area<'_>, index: usize, at: (i32, i32)) -> Result<(), Box<dyn std::error::Error>> {
    let color = COLORS[index % COLORS.len()];
    match index % 3 {
        0 => root.draw(&Circle::new(at, 5, color.filled()))?,
        1 => root.draw(&TriangleMarker::new(at, 6, color.filled()))?,
        _ => root.draw(&Cross::new(at, 5, color.stroke_width(2)))?,
    }
    Ok(())
}

fn pixels(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX / 64)
}

/// `memory.peak (MiB)`.
fn heading(name: &str, scale: Scale, unit: Unit) -> String {
    let unit = if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix };
    let name = clean(name);
    if unit.is_empty() { name.into_owned() } else { format!("{name} ({unit})") }
}

/// A number at an edge, without zeros that say nothing.
fn tick(value: f64, scale: Scale) -> String {
    let scaled = value / scale.factor;
    let text = number(scaled, decimals(scaled).min(6));
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_room_and_bars_begin_at_zero() {
        assert_eq!(range([1.0, 2.0, f64::NAN].into_iter(), false), Some((0.94, 2.06)));
        assert_eq!(range([0.0, 2.0].into_iter(), true), Some((0.0, 2.12)));
        assert_eq!(range([0.0, -2.0].into_iter(), true), Some((-2.12, 0.0)));
        assert_eq!(range(std::iter::empty(), false), None);
        assert_eq!(range([-1.7e308, 1.7e308].into_iter(), false), None, "what cannot be drawn is not");
        let (low, high) = range([3.0].into_iter(), false).unwrap();
        assert!(low < 3.0 && high > 3.0, "one number has room, too");
    }

    #[test]
    fn ticks_are_short() {
        let plain = Scale::of(1.0, Unit::One);
        for (value, text) in [(0.5, "0.5"), (2.0, "2"), (0.0, "0"), (120.0, "120"), (-1.25, "-1.25")] {
            assert_eq!(tick(value, plain), text);
        }
        assert_eq!(tick(0.5, Scale::of(0.5, Unit::Fraction)), "50");
    }
}
