//! Presentation of a chart, as the author of a recipe chooses it: scales, limits, labels, legend, colors, and the size for a
//! paper.

use plotters::prelude::RGBColor;

/// The presentation of a chart.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// The x-axis.
    pub x: Side,
    /// The y-axis.
    pub y: Side,
    /// The place of the legend; `None` for the place that fits the size.
    pub legend: Option<Legend>,
    /// The colors of series.
    pub palette: Palette,
    /// True for a figure of a paper: as wide as a column, without a title, and also as PDF.
    pub paper: bool,
}

/// An axis of a plot.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// True for a logarithmic scale; `None` if the numbers decide.
    pub log: Option<bool>,
    /// The lower and the upper end, in the metric's unit; `None` where the data decide.
    pub limits: [Option<f64>; 2],
    /// The label in place of the name of the quantity; the unit follows it.
    pub label: Option<String>,
}

/// The place of a legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Legend {
    /// To the right of the plot.
    Right,
    /// Below the plot.
    Bottom,
    /// Nowhere.
    Off,
}

/// Palettes for series. Color-blind people can distinguish the colors of each palette.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Palette {
    /// The colors of Okabe and Ito (2008).
    #[default]
    OkabeIto,
    /// The bright colors of Paul Tol (2021).
    Tol,
    /// Shades of gray.
    Gray,
}

impl Legend {
    /// The words in recipes.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("right", Self::Right), ("bottom", Self::Bottom), ("none", Self::Off)];
}

/// Okabe and Ito without yellow, which is too light for lines.
const OKABE_ITO: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
const TOL: [RGBColor; 7] = [
    RGBColor(68, 119, 170),
    RGBColor(238, 102, 119),
    RGBColor(34, 136, 51),
    RGBColor(204, 187, 68),
    RGBColor(102, 204, 238),
    RGBColor(170, 51, 119),
    RGBColor(120, 120, 120),
];
const GRAY: [RGBColor; 4] =
    [RGBColor(60, 60, 60), RGBColor(150, 150, 150), RGBColor(105, 105, 105), RGBColor(190, 190, 190)];

impl Palette {
    /// The words in recipes.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("okabe-ito", Self::OkabeIto), ("tol", Self::Tol), ("gray", Self::Gray)];

    /// The color of the series with this index. Many series repeat colors, with other dashes and markers.
    pub(super) const fn color(self, index: usize) -> RGBColor {
        let colors: &[RGBColor] = match self {
            Self::OkabeIto => &OKABE_ITO,
            Self::Tol => &TOL,
            Self::Gray => &GRAY,
        };
        colors[index % colors.len()]
    }
}
