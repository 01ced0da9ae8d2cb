//! Charts as SVG and PNG: line charts, bar charts, scatter plots, heat maps, histograms, rooflines, timelines, effects, and
//! the views of a search: parallel coordinates, slices and importance. Each kind has a file with its declaration, from
//! which the reader of recipes, the schema and the documentation are derived, and with its drawing code.
//!
//! The palette is that of Okabe and Ito, which color-blind people can distinguish. Lines also differ in dash pattern
//! and dots in shape, so that a chart remains readable in grayscale. The background of the files is white. The dark
//! theme of the page (`page.css`) replaces background, ink and grid, which it identifies by the colors here.

mod axis;
mod bars;
mod configurations;
mod declaration;
mod dots;
mod effects;
mod heat;
mod histogram;
mod importance;
mod lines;
mod parallel;
mod raster;
mod roofline;
mod shades;
mod slice;
mod timeline;

use std::{cell::OnceCell, collections::BTreeMap};

use jiff::Timestamp;
use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Curve, Metrics, Unit, Value, same_metric};

use crate::{
    format::{Scale, clean, decimals, number},
    stats::{Better, Estimate, Importance, Sample},
};

pub(crate) use self::declaration::{Declaration, Role};
use self::declaration::{Mark, Shows};

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
            pub(crate) const WORDS: &'static [(&'static str, Self)] = &[$(($declaration.word, Self::$Kind)),*];

            /// The declaration of the kind.
            pub(crate) const fn declaration(self) -> &'static Declaration {
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
pub(crate) struct Chart<'a> {
    pub(crate) spec: &'a Spec,
    /// The heading.
    pub(crate) title: &'a str,
    /// The better direction of the metric, for kinds that show configurations.
    pub(crate) better: Option<Better>,
    pub(crate) dots: Vec<Dot<'a>>,
    /// The effects, each with its label, for a kind that shows them.
    pub(crate) estimates: Vec<(String, Estimate)>,
    /// The importance of the axes, once it is computed: a forest takes longer than a drawing.
    pub(crate) importance: OnceCell<Option<Importance>>,
}

/// A job in a chart.
#[derive(Debug)]
pub(crate) struct Dot<'a> {
    /// The text of its point.
    pub(crate) name: String,
    /// The value on the axis that determines the color; empty without one.
    pub(crate) color: String,
    /// The value of `x`, if that is an axis.
    pub(crate) x: Option<&'a Value>,
    /// The value of `y`, if that is an axis.
    pub(crate) y: Option<&'a Value>,
    /// The values on all axes, for kinds that show them.
    pub(crate) axes: Vec<(&'a str, &'a Value)>,
    pub(crate) metrics: &'a Metrics,
    /// The curves, if the chart draws one.
    pub(crate) curves: Option<&'a BTreeMap<String, Curve>>,
    /// The start of the job.
    pub(crate) started: Timestamp,
    /// The duration of the job.
    pub(crate) seconds: f64,
    /// True if a search stopped its configuration here.
    pub(crate) stopped: bool,
}

impl Spec {
    /// The names of all drawn quantities, including the metrics.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        let roofs = [&self.roofs.compute, &self.roofs.bandwidth].into_iter().flatten();
        let roofs = roofs.filter_map(|roof| if let Roof::Metric(metric) = roof { Some(metric) } else { None });
        [&self.x, &self.y].into_iter().chain(&self.value).chain(roofs).map(String::as_str)
    }

    /// True if curves are drawn, which only complete records contain.
    pub(crate) fn has_curves(&self) -> bool {
        self.kind.declaration().y == Some(Role::Curve)
    }

    /// True if configurations are shown, by all of their axes.
    pub(crate) fn has_configurations(&self) -> bool {
        self.kind.declaration().shows == Shows::Configurations
    }

    /// The metric of a kind that shows one.
    pub(crate) fn shown_metric(&self) -> &str {
        self.value.as_ref().unwrap_or(&self.y)
    }

    /// The better direction of that metric: the explicit one, or the declared one.
    pub(crate) fn better(&self, declared: impl FnOnce() -> Option<Better>) -> Option<Better> {
        let said = self.best.iter().find(|(name, _)| same_metric(name, self.shown_metric()));
        said.map_or_else(declared, |(_, better)| *better)
    }
}

impl Chart<'_> {
    /// The chart as SVG; `None` if there is nothing to draw.
    pub(crate) fn svg(&self) -> Option<String> {
        let mut svg = String::new();
        let drawn = self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area());
        matches!(drawn, Ok(true)).then_some(svg)
    }

    /// The chart as PNG at twice the size.
    pub(crate) fn png(&self) -> Option<Vec<u8>> {
        raster::png(SIZE, |root| self.draw(root))
    }

    fn draw<B: Canvas>(&self, root: &Area<B>) -> Drawn {
        root.fill(&WHITE)?;
        let drawn = self.spec.kind.draw(self, root)?;
        root.present()?;
        Ok(drawn)
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
    fn half(&self, sample: &Sample) -> f64 {
        if self.spec.band { sample.half_width().unwrap_or(0.0) } else { 0.0 }
    }
}

/// True if there was anything to draw. The errors of the library's interface cannot occur for a text in memory.
type Drawn = Result<bool, Box<dyn std::error::Error>>;
type Area<B> = DrawingArea<B, Shift>;
type Plot<'c, B> = ChartContext<'c, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A drawing surface.
trait Canvas: DrawingBackend<ErrorType: 'static> {}

impl<B: DrawingBackend<ErrorType: 'static>> Canvas for B {}

const SIZE: (u32, u32) = (760, 460);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
/// The color of text on colored cells, which is also dark in the dark theme.
const ON_COLOR: RGBColor = RGBColor(17, 17, 17);
const FAINT: RGBColor = RGBColor(221, 221, 221);
/// The palette of Okabe and Ito (2008) without yellow, which is too light for lines.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// Lengths of dash and gap in pixels; `None` is a solid line.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((8, 4)), Some((3, 3)), Some((14, 4))];

/// Data of one color.
struct Series {
    name: String,
    /// For lines: iteration and the curve's sample there. For dots: the two coordinates, as samples of one value.
    points: Vec<(f64, Sample)>,
    /// For bars: by the index of the group.
    bars: BTreeMap<usize, Sample>,
}

// ---- Shared parts ---------------------------------------------------------------------------------------------------

/// The format of the tick labels; `None` shows none.
#[derive(Clone, Copy)]
struct Ticks {
    x: Option<Scale>,
    y: Scale,
}

/// The range of some numbers with a margin, except at zero; `None` if there are none.
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

fn builder<'b, B: Canvas>(root: &'b Area<B>, title: &str, series: &[Series]) -> ChartBuilder<'b, 'b, B> {
    let mut builder = ChartBuilder::on(root);
    builder.margin(14).margin_right(legend_width(series)).x_label_area_size(48).y_label_area_size(72);
    builder.caption(title, (FONT, 17).into_font().color(&INK));
    builder
}

fn mesh<B: Canvas>(
    chart: &mut Plot<'_, B>,
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

/// Draws the legend to the right of the plot.
fn legend<B: Canvas>(root: &Area<B>, kind: Kind, series: &[Series]) -> Result<(), Box<dyn std::error::Error>> {
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
        match kind.declaration().mark {
            Mark::Line => {
                let (dash, gap) = DASHES[index % DASHES.len()].unwrap_or((26, 0));
                let mut start = 0;
                while start < 26 {
                    let end = (start + dash).min(26);
                    root.draw(&PathElement::new([(x + start, y), (x + end, y)], color.stroke_width(2)))?;
                    start += dash + gap;
                }
            }
            Mark::Area => {
                root.draw(&Rectangle::new([(x, y - 6), (x + 26, y + 6)], color.mix(0.85).filled()))?;
            }
            Mark::Dot => marker(root, index, (x + 13, y))?,
            Mark::Nothing => {}
        }
        let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(name.clone(), (x + 34, y), style))?;
    }
    Ok(())
}

/// Width of the legend.
fn legend_width(series: &[Series]) -> i32 {
    let longest = series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    if longest == 0 { 24 } else { 12 + 34 + 8 * pixels(longest.min(40)) + 10 }
}

/// Draws a dot in the shape of its color.
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

/// A heading with its unit: `memory.peak (MiB)`.
fn heading(name: &str, scale: Scale, unit: Unit) -> String {
    let unit = if scale.suffix.is_empty() { unit.symbol() } else { scale.suffix };
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
