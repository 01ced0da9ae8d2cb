//! Charts as SVG and PNG: line charts, bar charts, scatter plots, heat maps, histograms, rooflines, timelines, effects, and
//! the views of a search: parallel coordinates, slices and importance. Each kind has a file with its declaration, from
//! which the reader of recipes, the schema and the documentation are derived, and with its drawing code.
//!
//! The palette is Okabe and Ito's, which color-blind people can distinguish. Lines also differ in dash pattern and dots in shape, so that a
//! chart remains readable in grayscale. The background of the files is white. The dark theme of the page (`page.css`) replaces background,
//! ink and grid, which it identifies by the colors here.

mod axis;
mod bars;
mod configurations;
mod data;
mod declaration;
mod dots;
mod effects;
mod heat;
mod histogram;
mod importance;
mod legend;
mod letters;
mod lines;
mod look;
mod mean;
mod parallel;
mod pdf;
mod raster;
mod roofline;
mod shades;
mod slice;
mod span;
mod svg;
mod timeline;
mod trend;

use std::{cell::OnceCell, collections::BTreeMap};

use jiff::Timestamp;
use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{
        Shift,
        ranged1d::{Ranged, ValueFormatter},
    },
    prelude::*,
};
use sweep_job::{Curve, Metrics, Unit, Value, same_metric};

use crate::{
    format::{Scale, clean, decimals, number, readable},
    stats::{Better, Estimate, Importance},
};

pub use self::data::Data;
pub use self::declaration::{Declaration, Role};
pub use self::look::{Legend, Look, Palette, Side};
pub use self::mean::{Mean, MeanOf, Means};
use self::{
    declaration::{Mark, Shows},
    legend::{legend, legend_room, marker},
};

/// Generates from one list the kinds of charts, their words, their declarations, and the dispatch to their drawing
/// functions.
macro_rules! kinds {
    ($($Kind:ident: $declaration:path, $draw:path;)*) => {
        /// The kinds of charts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each has its declaration")]
        pub enum Kind {
            $($Kind,)*
        }

        impl Kind {
            /// The words in recipes.
            pub const WORDS: &'static [(&'static str, Self)] = &[$(($declaration.word, Self::$Kind)),*];

            /// The declaration of the kind.
            pub const fn declaration(self) -> &'static Declaration {
                match self {
                    $(Self::$Kind => &$declaration,)*
                }
            }

            fn draw<B: Canvas>(self, chart: &Chart<'_>, root: &Area<B>) -> Drawn {
                match self {
                    $(Self::$Kind => $draw(chart, root),)*
                }
            }
        }
    };
}

kinds! {
    Line: lines::LINE, lines::draw;
    Bar: bars::BAR, bars::draw;
    Scatter: dots::SCATTER, dots::draw;
    Pareto: dots::PARETO, dots::draw;
    Heat: heat::HEAT, heat::draw;
    Histogram: histogram::HISTOGRAM, histogram::draw;
    Roofline: roofline::ROOFLINE, roofline::draw;
    Timeline: timeline::TIMELINE, timeline::draw;
    Effects: effects::EFFECTS, effects::draw;
    Parallel: parallel::PARALLEL, parallel::draw;
    Slice: slice::SLICE, slice::draw;
    Importance: importance::IMPORTANCE, importance::draw;
}

/// The content of a chart, by names.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The kind of chart.
    pub kind: Kind,
    /// The quantity on the x-axis.
    pub x: String,
    /// The quantity on the y-axis; the same as `x` for kinds without one.
    pub y: String,
    /// The quantity at each position, for kinds that have one.
    pub value: Option<String>,
    /// The peak rates of the device, for kinds that need them.
    pub roofs: Roofs,
    /// The explicit better direction of metrics.
    pub best: Vec<(String, Option<Better>)>,
    /// The axes whose spacing is declared; true for a logarithmic one.
    pub scales: Vec<(String, bool)>,
    /// The axis whose values are distinguished by color.
    pub color: Option<String>,
    /// True if the 95 % confidence interval is drawn around averaged values.
    pub band: bool,
    /// The presentation.
    pub look: Look,
}

/// The peak rates of a device.
#[derive(Debug, Clone, Default)]
pub struct Roofs {
    /// Operations per second.
    pub compute: Option<Roof>,
    /// Bytes per second.
    pub bandwidth: Option<Roof>,
}

/// A peak rate.
#[derive(Debug, Clone)]
pub enum Roof {
    /// The largest value of a metric.
    Metric(String),
    /// A number in base units.
    Number(f64),
}

/// A chart with its data.
#[derive(Debug)]
pub struct Chart<'a> {
    /// The figure that the recipe declares.
    pub spec: &'a Spec,
    /// The heading.
    pub title: &'a str,
    /// The better direction of the metric, for kinds that show configurations.
    pub better: Option<Better>,
    /// The results, one for each job.
    pub dots: Vec<Dot<'a>>,
    /// The effects, each with its label, for a kind that shows them.
    pub estimates: Vec<(String, Estimate)>,
    /// The means of results, with their intervals.
    pub means: Means<'a>,
    /// The importance of the axes, once it is computed: a forest takes longer than a drawing.
    pub importance: OnceCell<Option<Importance>>,
}

/// A job in a chart.
#[derive(Debug)]
pub struct Dot<'a> {
    /// The number of the job, by which means know it.
    pub index: usize,
    /// The text of its point.
    pub name: String,
    /// The value on the axis that determines the color; empty without one.
    pub color: String,
    /// The value of `x`, if that is an axis.
    pub x: Option<&'a Value>,
    /// The value of `y`, if that is an axis.
    pub y: Option<&'a Value>,
    /// The values on all axes, for kinds that show them.
    pub axes: Vec<(&'a str, &'a Value)>,
    /// The metrics of the result.
    pub metrics: &'a Metrics,
    /// The curves, if the chart draws one.
    pub curves: Option<&'a BTreeMap<String, Curve>>,
    /// The start of the job.
    pub started: Timestamp,
    /// The duration of the job.
    pub seconds: f64,
    /// The reason why its curve ends before the curves of other jobs.
    pub ended: Option<End>,
}

/// The reason why a curve ends before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A search stopped its configuration here.
    Stopped,
    /// Its values were not finite from there on.
    Diverged,
}

impl Spec {
    /// The names of all drawn quantities, including the metrics.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        let roofs = [&self.roofs.compute, &self.roofs.bandwidth].into_iter().flatten();
        let roofs = roofs.filter_map(|roof| if let Roof::Metric(metric) = roof { Some(metric) } else { None });
        [&self.x, &self.y].into_iter().chain(&self.value).chain(roofs).map(String::as_str)
    }

    /// True if curves are drawn, which only complete records contain.
    pub fn has_curves(&self) -> bool {
        self.kind.declaration().y == Some(Role::Line) && self.x == ITERATION
    }

    /// True if configurations are shown, by all of their axes.
    pub fn has_configurations(&self) -> bool {
        self.kind.declaration().shows == Shows::Configurations
    }

    /// The metric of a kind that shows one.
    pub fn shown_metric(&self) -> &str {
        self.value.as_ref().unwrap_or(&self.y)
    }

    /// The better direction of that metric: the explicit one, or the declared one.
    pub fn better(&self, declared: impl FnOnce() -> Option<Better>) -> Option<Better> {
        let entry = self.best.iter().find(|(name, _)| same_metric(name, self.shown_metric()));
        entry.map_or_else(declared, |(_, better)| *better)
    }
}

impl Chart<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> Result<String, Empty> {
        if self.dots.is_empty() && self.estimates.is_empty() {
            return Err(Empty::NoJobs);
        }
        let mut svg = String::new();
        let result = self.draw(&svg::Svg::new(&mut svg, self.size()).into_drawing_area());
        result.unwrap_or(Err(Empty::Impossible)).map(|()| svg)
    }

    /// The chart as PNG at twice the size.
    pub fn png(&self) -> Option<Vec<u8>> {
        raster::png(self.size(), |root| self.draw(root))
    }

    /// Returns the chart of a paper as PDF; `None` for other charts.
    pub fn pdf(&self) -> Option<Vec<u8>> {
        let width = if self.is_narrow() { COLUMN } else { TEXT };
        let pdf = || pdf::pdf(self.size(), width, |root| self.draw(root));
        self.spec.look.paper.then(pdf).flatten()
    }

    fn draw<B: Canvas>(&self, root: &Area<B>) -> Drawn {
        root.fill(&WHITE)?;
        let result = self.spec.kind.draw(self, root)?;
        root.present()?;
        Ok(result)
    }

    /// True if the chart has the width of a column.
    fn is_narrow(&self) -> bool {
        self.spec.look.paper && self.spec.kind.declaration().narrow
    }

    /// Width and height, in units of 1/13 of the font size.
    fn size(&self) -> (u32, u32) {
        if self.is_narrow() { NARROW } else { SIZE }
    }

    /// The color of a series.
    fn color(&self, index: usize) -> RGBColor {
        self.spec.look.palette.color(index)
    }

    /// The place of the legend.
    fn legend_place(&self) -> Legend {
        self.spec.look.legend.unwrap_or(if self.is_narrow() { Legend::Bottom } else { Legend::Right })
    }

    /// The label of the x-axis: the author's name of the quantity, or this one, with the unit.
    fn x_label(&self, name: &str, unit: &str) -> String {
        with_unit(self.spec.look.x.label.as_deref().unwrap_or(name), unit)
    }

    /// The label of the x-axis with a metric on it.
    fn x_metric(&self, scale: Scale, unit: Unit) -> String {
        self.x_label(&readable(&self.spec.x), unit_text(scale, unit))
    }

    /// The label of the y-axis with a metric on it.
    fn y_metric(&self, scale: Scale, unit: Unit) -> String {
        self.y_label(&readable(&self.spec.y), unit_text(scale, unit))
    }

    /// The label of the y-axis, likewise.
    fn y_label(&self, name: &str, unit: &str) -> String {
        with_unit(self.spec.look.y.label.as_deref().unwrap_or(name), unit)
    }

    /// The dots of each color, in the order of the first dot of each color.
    fn by_color(&self) -> Vec<(String, Vec<&Dot<'_>>)> {
        let mut groups: Vec<(String, Vec<&Dot<'_>>)> = Vec::new();
        for dot in &self.dots {
            match groups.iter_mut().find(|(known, _)| *known == dot.color) {
                Some((_, group)) => group.push(dot),
                None => groups.push((dot.color.clone(), vec![dot])),
            }
        }
        groups
    }

    /// Half the width of the interval around a mean.
    fn half(&self, mean: &Mean) -> f64 {
        if self.spec.band { mean.half.unwrap_or(0.0) } else { 0.0 }
    }

    /// The mean of the values of some jobs, each with the job's number.
    fn mean(&self, values: &[(usize, f64)]) -> Option<Mean> {
        let (jobs, values): (Vec<usize>, Vec<f64>) = values.iter().copied().unzip();
        self.means.of(&jobs)(&values)
    }
}

/// The reason why there is nothing to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Empty {
    /// No job has a record.
    #[error("no job of it has run")]
    NoJobs,
    /// No record has finite numbers of all its quantities.
    #[error("no record has the numbers that it shows")]
    NoValues,
    /// There are no numbers for a logarithmic axis.
    #[error("no number is above zero, which a logarithmic axis needs")]
    NotPositive,
    /// There are no numbers between the ends of an axis.
    #[error("no number is between the limits of its axes")]
    Outside,
    /// The axis has one value, and there is nothing to compare.
    #[error("its axes have one value each")]
    NoVariation,
    /// The numbers are too far from each other, or equal where they must differ.
    #[error("its numbers cannot be drawn")]
    Impossible,
}

/// The outcome of drawing. The errors of the library's interface cannot occur for a text in memory.
type Drawn = Result<Result<(), Empty>, Box<dyn std::error::Error>>;
type Area<B> = DrawingArea<B, Shift>;
type Plot<'c, B, X, Y> = ChartContext<'c, B, Cartesian2d<X, Y>>;

/// A drawing surface.
trait Canvas: DrawingBackend<ErrorType: 'static> {}

impl<B: DrawingBackend<ErrorType: 'static>> Canvas for B {}

/// The quantity on the x-axis over which curves go.
pub const ITERATION: &str = "iteration";

const SIZE: (u32, u32) = (760, 460);
/// Width and height of a chart for a column of a paper, in units of 1/13 of the font size, which is 8 points there.
const NARROW: (u32, u32) = (387, 270);
/// The widths of a column and of the text of a paper, in points of 1/72 inch: 84 and 178 mm.
const COLUMN: f32 = 238.0;
const TEXT: f32 = 504.0;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
/// The color of text on colored cells, which is also dark in the dark theme.
const ON_COLOR: RGBColor = RGBColor(17, 17, 17);
const FAINT: RGBColor = RGBColor(221, 221, 221);

/// Lengths of dash and gap in pixels; `None` is a solid line.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((8, 4)), Some((3, 3)), Some((14, 4))];

/// Data of one color.
struct Series {
    name: String,
    /// For lines: iteration and the curve's mean there. For dots: the two coordinates, the second as the mean of one value.
    points: Vec<(f64, Mean)>,
    /// For bars: by the index of the group.
    bars: BTreeMap<usize, Mean>,
}

// ---- Shared parts ---------------------------------------------------------------------------------------------------

/// The format of the tick labels; `None` shows none.
#[derive(Clone, Copy)]
struct Ticks {
    x: Option<Scale>,
    y: Scale,
}

/// The range of the finite numbers with a margin, except at zero; `None` without finite numbers, or if they are too large to draw.
fn range(values: impl Iterator<Item = f64>, from_zero: bool) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return None;
    }
    // Numbers close to the largest finite one cannot be drawn.
    if !(high - low).is_finite() || low.abs().max(high.abs()) > f64::MAX / 4.0 {
        return None;
    }
    let room = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.1).max(1e-9) };
    let stays = |end: f64| from_zero && end == 0.0;
    Some((if stays(low) { low } else { low - room }, if stays(high) && low < 0.0 { high } else { high + room }))
}

fn builder<'b, B: Canvas>(root: &'b Area<B>, chart: &Chart<'_>, series: &[Series]) -> ChartBuilder<'b, 'b, B> {
    let mut builder = ChartBuilder::on(root);
    let (beside, below) = legend_room(chart, series);
    let left = if chart.is_narrow() { 64 } else { 72 };
    builder.margin(14).margin_right(beside).margin_bottom(14 + below).x_label_area_size(48).y_label_area_size(left);
    if chart.is_narrow() {
        builder.margin_top(8).margin_left(4);
    } else {
        builder.caption(chart.title, (FONT, 17).into_font().color(&INK));
    }
    builder
}

fn mesh<B, X, Y>(
    plot: &mut Plot<'_, B, X, Y>,
    chart: &Chart<'_>,
    (x_name, y_name): (String, String),
    ticks: Ticks,
) -> Result<(), Box<dyn std::error::Error>>
where
    B: Canvas,
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let x_text = |value: &f64| ticks.x.map_or_else(String::new, |scale| tick(*value, scale));
    let y_text = |value: &f64| tick(*value, ticks.y);
    let max_labels = if chart.is_narrow() { 5 } else { 8 };
    let mut mesh = plot.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).bold_line_style(FAINT).axis_style(INK);
    mesh.x_label_formatter(&x_text).y_label_formatter(&y_text);
    mesh.x_desc(x_name).y_desc(y_name);
    mesh.x_labels(if ticks.x.is_some() { max_labels } else { 0 }).y_labels(max_labels);
    mesh.label_style((FONT, 13).into_font().color(&INK));
    mesh.draw()?;
    Ok(())
}

fn pixels(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX / 64)
}

/// A metric with its unit: `Memory: peak (MiB)`.
fn heading(name: &str, scale: Scale, unit: Unit) -> String {
    with_unit(&readable(name), unit_text(scale, unit))
}

/// The unit of numbers on a scale; empty without one.
fn unit_text(scale: Scale, unit: Unit) -> &'static str {
    if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix }
}

fn with_unit(name: &str, unit: &str) -> String {
    let name = clean(name);
    if unit.is_empty() { name.into_owned() } else { format!("{name} ({unit})") }
}

/// A tick label, without trailing zeros.
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
