//! Charts as SVG and PNG: curves over iterations, bars by an axis, dots of one metric against another, heat maps,
//! histograms, rooflines and timelines. A file for each kind has its declaration, which recipes, schema and documentation go
//! by, and draws it.
//!
//! The colors are those of Okabe and Ito, which color-blind people tell apart; lines differ in their dashes and dots
//! in their shape, too, so that a chart printed in gray can be read. The files' ground is white whatever surrounds it; the
//! page gives its dark form another one (`page.css`), which knows ground, ink and grid by the colors here.

mod bars;
mod dots;
mod heat;
mod histogram;
mod lines;
mod raster;
mod roofline;
mod timeline;

use std::collections::BTreeMap;

use jiff::Timestamp;
use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use sweep_job::{Curve, Metrics, Unit, Value};

use crate::{
    format::{Scale, clean, decimals, number},
    stats::{Better, Sample},
};

/// Makes of one list the kinds of charts, the words for them, their declarations, and which function draws which.
macro_rules! kinds {
    ($($Kind:ident: $declaration:path, $draw:path;)*) => {
        /// The kinds of charts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each has its declaration")]
        pub enum Kind {
            $($Kind,)*
        }

        impl Kind {
            /// The words that a recipe writes.
            pub(crate) const WORDS: &'static [(&'static str, Self)] = &[$(($declaration.word, Self::$Kind)),*];

            /// What the kind shows, and of what.
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
}

/// What a kind of chart shows, and of what.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// The word that a recipe writes.
    pub(crate) word: &'static str,
    /// A sentence for readers.
    pub(crate) doc: &'static str,
    /// What goes to the right, if that is the author's to say.
    pub(crate) x: Option<Role>,
    /// What goes upwards, if that is the author's to say.
    pub(crate) y: Option<Role>,
    /// What is shown at each place, if that is not what goes upwards.
    pub(crate) value: Option<Role>,
    /// Whether it asks which values are better.
    pub(crate) best: bool,
    /// Whether it needs to know what the device can do at most.
    pub(crate) roofs: bool,
    /// What stands beside a color's name.
    mark: Mark,
}

/// What a name in a chart stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The iterations of a job.
    Iteration,
    /// A curve over them.
    Curve,
    /// An axis of the step.
    Axis,
    /// A metric.
    Metric,
}

/// What stands beside a color's name.
#[derive(Debug, Clone, Copy)]
enum Mark {
    /// A line with its dashes.
    Line,
    /// A box.
    Area,
    /// A dot in its shape.
    Dot,
    /// Nothing: the chart has a scale of its own.
    Nothing,
}

impl Declaration {
    /// With nothing that only some kinds have.
    const NOTHING: Self =
        Self { word: "", doc: "", x: None, y: None, value: None, best: false, roofs: false, mark: Mark::Nothing };
}

impl Role {
    /// As the documentation names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Iteration => "`iteration`",
            Self::Curve => "a curve",
            Self::Axis => "an axis",
            Self::Metric => "a metric",
        }
    }
}

/// What a chart shows, in names.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What is drawn.
    pub kind: Kind,
    /// To the right, as the kind has it.
    pub x: String,
    /// Upwards, as the kind has it; the same as `x` where it has nothing there.
    pub y: String,
    /// What is shown at each place, for kinds that have that.
    pub value: Option<String>,
    /// What the device can do at most, for kinds that need that.
    pub roofs: Roofs,
    /// Whether small or large values of a metric are the better ones, where the author says so.
    pub best: Vec<(String, Option<Better>)>,
    /// The axis whose values have a color each.
    pub color: Option<String>,
    /// Whether the 95 % confidence interval is drawn around what is averaged.
    pub band: bool,
}

/// What a device can do at most.
#[derive(Debug, Clone, Default)]
pub struct Roofs {
    /// Operations a second.
    pub compute: Option<Roof>,
    /// Bytes a second.
    pub bandwidth: Option<Roof>,
}

/// How high a roof is.
#[derive(Debug, Clone)]
pub enum Roof {
    /// As the largest value of a metric.
    Metric(String),
    /// In base units.
    Number(f64),
}

/// What is drawn, with its numbers.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) spec: &'a Spec,
    /// The heading.
    pub(crate) title: &'a str,
    pub(crate) dots: Vec<Dot<'a>>,
}

/// A job's place in a chart.
#[derive(Debug)]
pub(crate) struct Dot<'a> {
    /// Its point, as a text.
    pub(crate) name: String,
    /// The value on the axis that gives the color; empty without one.
    pub(crate) color: String,
    /// The value on the axis to the right, if that is one.
    pub(crate) x: Option<&'a Value>,
    /// The value on the axis upwards, if that is one.
    pub(crate) y: Option<&'a Value>,
    pub(crate) metrics: &'a Metrics,
    /// The curves, where one is drawn.
    pub(crate) curves: Option<&'a BTreeMap<String, Curve>>,
    /// When the job began.
    pub(crate) started: Timestamp,
    /// How long it took.
    pub(crate) seconds: f64,
}

impl Spec {
    /// What is drawn, metrics among it.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        let roofs = [&self.roofs.compute, &self.roofs.bandwidth].into_iter().flatten();
        let roofs = roofs.filter_map(|roof| if let Roof::Metric(metric) = roof { Some(metric) } else { None });
        [&self.x, &self.y].into_iter().chain(&self.value).chain(roofs).map(String::as_str)
    }

    /// Whether curves are drawn, which only whole records have.
    pub(crate) fn has_curves(&self) -> bool {
        self.kind.declaration().y == Some(Role::Curve)
    }
}

impl Chart<'_> {
    /// As SVG; `None` if there is nothing to draw.
    pub(crate) fn svg(&self) -> Option<String> {
        let mut svg = String::new();
        let drawn = self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area());
        matches!(drawn, Ok(true)).then_some(svg)
    }

    /// As PNG, twice as large.
    pub(crate) fn png(&self) -> Option<Vec<u8>> {
        raster::png(SIZE, |root| self.draw(root))
    }

    fn draw<B: Canvas>(&self, root: &Area<B>) -> Drawn {
        root.fill(&WHITE)?;
        let drawn = self.spec.kind.draw(self, root)?;
        root.present()?;
        Ok(drawn)
    }

    /// The dots of each color, in the order in which the colors come.
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

    /// Half the width of the interval that is drawn around a mean.
    fn half(&self, sample: &Sample) -> f64 {
        if self.spec.band { sample.half_width().unwrap_or(0.0) } else { 0.0 }
    }
}

/// Whether there was anything to draw. None of the errors can happen to a text in memory, but the library's interface has
/// them.
type Drawn = Result<bool, Box<dyn std::error::Error>>;
type Area<B> = DrawingArea<B, Shift>;
type Plot<'c, B> = ChartContext<'c, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// What can be drawn on.
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

// ---- What all of them have ------------------------------------------------------------------------------------------

/// How the numbers along the edges are shown; `None` shows none.
#[derive(Clone, Copy)]
struct Ticks {
    x: Option<Scale>,
    y: Scale,
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

/// Names the colors, to the right of the plot, where no data is.
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
