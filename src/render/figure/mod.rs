//! Figures as SVG and PNG: curves over iterations, bars by an axis, dots of one metric against another, heat maps,
//! histograms, rooflines and timelines.
//!
//! The colors are those of Okabe and Ito, which color-blind people can distinguish; lines differ in their dashes and
//! dots in their shapes, too, so that a figure printed in gray can be read. The files' background is always white; the
//! page's dark form replaces the colors of background, ink and grid (`page.css`), which it recognizes by the values
//! here.

mod bars;
mod dots;
mod heat;
mod lines;
mod raster;
mod roofline;
mod timeline;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
};

use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::Unit;

use crate::{
    analysis::Sample,
    format::{Scale, clean, decimals, number},
    plan::{JobId, Point, Study, resolved, selected},
    recipe::{self, FigureKind},
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
    /// The SVG; `None` while there is nothing to draw.
    pub svg: Option<String>,
    /// The same as PNG, twice as large.
    pub png: Option<Vec<u8>>,
}

/// True if there was anything to draw. None of the errors can happen to a text in memory, but the library's interface
/// has them.
type Drawn = Result<bool, Box<dyn std::error::Error>>;
type Area<B> = DrawingArea<B, Shift>;
type Chart<'c, B> = ChartContext<'c, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Drawing surface.
trait Canvas: DrawingBackend<ErrorType: 'static> {}

impl<B: DrawingBackend<ErrorType: 'static>> Canvas for B {}

const SIZE: (u32, u32) = (760, 460);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
/// For text on a color, which stays dark on a dark page.
const ON_COLOR: RGBColor = RGBColor(17, 17, 17);
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

/// Things of one color.
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
    measured: &'a Measured,
    /// The whole record, where a curve is drawn.
    record: Option<&'a Record>,
}

impl Figure {
    /// Draws a figure from what is done.
    pub(super) fn new(
        figure: &recipe::Figure,
        study: &Study,
        measured: &BTreeMap<JobId, Measured>,
        records: &BTreeMap<JobId, Cow<'_, Record>>,
    ) -> Self {
        let mut jobs = HashSet::new();
        let mut dots = Vec::new();
        for (point, job) in points(figure, study) {
            // Points that are the same job are one measurement.
            if jobs.insert(*job) {
                let record = records.get(job).map(AsRef::as_ref);
                dots.extend(measured.get(job).map(|measured| Dot { point, measured, record }));
            }
        }
        let title = clean(figure.title.as_ref().unwrap_or(&figure.name.value)).into_owned();
        let mut svg = String::new();
        let drawn = draw(figure, &title, &dots, &SVGBackend::with_string(&mut svg, SIZE).into_drawing_area());
        let svg = matches!(drawn, Ok(true)).then_some(svg);
        let png = svg.is_some().then(|| raster::png(SIZE, |root| draw(figure, &title, &dots, root))).flatten();
        Self { name: figure.name.value.clone(), title, svg, png }
    }
}

/// The points that a figure is about, with their jobs.
pub(super) fn points<'s>(
    figure: &recipe::Figure,
    study: &'s Study,
) -> impl Iterator<Item = &'s (Point, JobId)> + use<'s> {
    let only = resolved(&study.recipe, &figure.only);
    let points = study.steps[figure.from.value].iter().filter(|(point, _)| selected(point, &only));
    points.collect::<Vec<_>>().into_iter()
}

fn draw<B: Canvas>(figure: &recipe::Figure, title: &str, dots: &[Dot<'_>], root: &Area<B>) -> Drawn {
    root.fill(&WHITE)?;
    let drawn = match figure.kind {
        FigureKind::Line => lines::draw(figure, title, dots, root),
        FigureKind::Bar => bars::draw(figure, title, dots, root),
        FigureKind::Histogram => bars::histogram(figure, title, dots, root),
        FigureKind::Scatter | FigureKind::Pareto => dots::draw(figure, title, dots, root),
        FigureKind::Heat => heat::draw(figure, title, dots, root),
        FigureKind::Roofline => roofline::draw(figure, title, dots, root),
        FigureKind::Timeline => timeline::draw(figure, title, dots, root),
    }?;
    root.present()?;
    Ok(drawn)
}

/// The dots of each color, in the order in which the colors come.
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

// ---- What all of them have ------------------------------------------------------------------------------------------

/// Format of the numbers along the edges; `None` shows none.
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
    // Numbers too close to infinity cannot be drawn.
    if !(high - low).is_finite() || low.abs().max(high.abs()) > f64::MAX / 4.0 {
        return None;
    }
    let room = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.1).max(1e-9) };
    let stays = |end: f64| from_zero && end == 0.0;
    Some((if stays(low) { low } else { low - room }, if stays(high) && low < 0.0 { high } else { high + room }))
}

fn builder<'b, B: Canvas>(root: &'b Area<B>, title: &str, series: &[Series]) -> ChartBuilder<'b, 'b, B> {
    let mut builder = ChartBuilder::on(root);
    builder.margin(14).margin_right(legend_width(series)).x_label_area_size(48).y_label_area_size(72);
    builder.caption(title, (FONT, 17).into_font().color(&INK));
    builder
}

fn mesh<B: Canvas>(
    chart: &mut Chart<'_, B>,
    x_name: &str,
    y_name: &str,
    ticks: Ticks,
) -> Result<(), Box<dyn std::error::Error>> {
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

/// Names the colors, to the right of the plot, where no data is.
fn legend<B: Canvas>(root: &Area<B>, kind: FigureKind, series: &[Series]) -> Result<(), Box<dyn std::error::Error>> {
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
            FigureKind::Bar | FigureKind::Histogram | FigureKind::Timeline => {
                root.draw(&Rectangle::new([(x, y - 6), (x + 26, y + 6)], color.mix(0.85).filled()))?;
            }
            FigureKind::Scatter | FigureKind::Pareto | FigureKind::Roofline => marker(root, index, (x + 13, y))?,
            // It has a scale of its own.
            FigureKind::Heat => {}
        }
        let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(name.clone(), (x + 34, y), style))?;
    }
    Ok(())
}

/// Room for the names of the colors.
fn legend_width(series: &[Series]) -> i32 {
    let longest = series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    if longest == 0 { 24 } else { 12 + 34 + 8 * pixels(longest.min(40)) + 10 }
}

/// Draws a dot, in the shape that goes with its color.
fn marker<B: Canvas>(root: &Area<B>, index: usize, at: (i32, i32)) -> Result<(), Box<dyn std::error::Error>> {
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
