//! Continuous axes of a plot: numbers between two ends, on a linear or a logarithmic scale.

use std::ops::Range;

use plotters::coord::{
    ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
    types::RangedCoordf64,
};

use super::{Empty, axis::decades, look::Side, range};

/// An axis between two ends.
#[derive(Debug, Clone)]
pub(super) struct Span {
    /// The ends; their decimal logarithms on a logarithmic scale.
    low: f64,
    high: f64,
    log: bool,
}

impl Span {
    /// The axis for some numbers, with a margin, or with the ends that the author gave. On a logarithmic scale only positive
    /// numbers count; on a linear one the axis begins at zero if `from_zero`.
    pub(super) fn new(values: impl Iterator<Item = f64>, from_zero: bool, side: &Side) -> Result<Self, Empty> {
        let log = side.log == Some(true);
        let mut is_none = true;
        let values = values.filter(|value| value.is_finite()).inspect(|_| is_none = false);
        let scaled = values.filter(|value| !log || *value > 0.0).map(|value| if log { value.log10() } else { value });
        let data_range = range(scaled, from_zero && !log);
        if is_none {
            return Err(Empty::NoValues);
        }
        let [least, most] = side.limits.map(|end| end.map(|end| if log { end.log10() } else { end }));
        let (low, high) = match (data_range, least, most) {
            (_, Some(least), Some(most)) => (least, most),
            // Limits the powers of ten to the range of finite numbers.
            (Some((low, high)), ..) if log => (least.unwrap_or(low.max(-307.0)), most.unwrap_or(high.min(308.0))),
            (Some((low, high)), ..) => (least.unwrap_or(low), most.unwrap_or(high)),
            (None, ..) if log => return Err(Empty::NotPositive),
            (None, ..) => return Err(Empty::NoValues),
        };
        // An end beyond all numbers leaves nothing between.
        if low < high && (high - low).is_finite() { Ok(Self { low, high, log }) } else { Err(Empty::Outside) }
    }

    /// The axis between two numbers.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        Self { low, high, log: false }
    }

    /// The largest distance from zero, which decides the prefix of the unit.
    pub(super) fn reach(&self) -> f64 {
        let Range { start, end } = self.range();
        start.abs().max(end.abs())
    }

    /// The lower end.
    pub(super) fn start(&self) -> f64 {
        self.range().start
    }

    /// The upper end.
    pub(super) fn end(&self) -> f64 {
        self.range().end
    }

    /// The number at which bars begin.
    pub(super) fn base(&self) -> f64 {
        if self.log { self.start() } else { self.clamp(0.0) }
    }

    /// True if a number is between the ends.
    pub(super) fn holds(&self, value: f64) -> bool {
        let scaled = self.scaled(value);
        // Ends from the data have a margin; ends from the recipe belong to the plot.
        self.low <= scaled && scaled <= self.high
    }

    /// The nearest number between the ends.
    pub(super) fn clamp(&self, value: f64) -> f64 {
        let Range { start, end } = self.range();
        if value.is_nan() { start } else { value.clamp(start, end) }
    }

    fn scaled(&self, value: f64) -> f64 {
        match self.log {
            false => value,
            // Below every end.
            true if value <= 0.0 => f64::NEG_INFINITY,
            true => value.log10(),
        }
    }
}

impl Ranged for Span {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.low..self.high).map(&self.scaled(*value).clamp(-1e300, 1e300), limit)
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if self.log {
            let Range { start, end } = self.range();
            return decades(start, end, hint.max_num_points()).into_iter().map(|(number, _)| number).collect();
        }
        RangedCoordf64::from(self.low..self.high).key_points(hint)
    }

    fn range(&self) -> Range<f64> {
        if self.log { 10_f64.powf(self.low)..10_f64.powf(self.high) } else { self.low..self.high }
    }
}

/// The part of a line through some points that is between the ends of both axes, in pieces.
pub(super) fn visible(points: &[(f64, f64)], x: &Span, y: &Span) -> Vec<Vec<(f64, f64)>> {
    if points.iter().all(|(at, value)| x.holds(*at) && y.holds(*value)) {
        return vec![points.to_vec()];
    }
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    for two in points.windows(2) {
        let Some((from, to)) = clipped(two[0], two[1], x, y) else { continue };
        match pieces.last_mut() {
            Some(piece) if piece.last() == Some(&from) => piece.push(to),
            _ => pieces.push(vec![from, to]),
        }
    }
    pieces
}

/// The part of a line between two points that is between the ends of both axes (Liang and Barsky, 1984), on the scales.
fn clipped(from: (f64, f64), to: (f64, f64), x: &Span, y: &Span) -> Option<((f64, f64), (f64, f64))> {
    let scaled = |(at, value): (f64, f64)| (x.scaled(at).max(-1e300), y.scaled(value).max(-1e300));
    let (start, end) = (scaled(from), scaled(to));
    let (mut first, mut last) = (0.0_f64, 1.0_f64);
    for (begin, finish, span) in [(start.0, end.0, x), (start.1, end.1, y)] {
        let way = finish - begin;
        for (distance, gap) in [(-way, begin - span.low), (way, span.high - begin)] {
            if distance == 0.0 {
                if gap < 0.0 {
                    return None;
                }
            } else if distance < 0.0 {
                first = first.max(gap / distance);
            } else {
                last = last.min(gap / distance);
            }
        }
    }
    if first > last {
        return None;
    }
    let at = |part: f64, point: (f64, f64)| {
        if part == 0.0 || part == 1.0 {
            return point;
        }
        let back = |span: &Span, scaled: f64| if span.log { 10_f64.powf(scaled) } else { scaled };
        (back(x, start.0 + (end.0 - start.0) * part), back(y, start.1 + (end.1 - start.1) * part))
    };
    Some((at(first, from), at(last, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Side {
        Side { log: Some(true), ..Side::default() }
    }

    fn within(low: f64, high: f64) -> Side {
        Side { limits: [Some(low), Some(high)], ..Side::default() }
    }

    #[test]
    fn a_logarithmic_axis_is_for_positive_numbers() {
        let span = Span::new([0.0, 1.0, 100.0, -5.0].into_iter(), false, &log()).unwrap();
        let (low, middle, high) = (span.map(&1.0, (0, 1000)), span.map(&10.0, (0, 1000)), span.map(&100.0, (0, 1000)));
        assert!((middle - low - (high - middle)).abs() <= 1, "{low}, {middle}, {high}");
        assert!(span.map(&0.0, (0, 1000)) < low);
        assert_eq!(Span::new([0.0, -1.0].into_iter(), false, &log()).unwrap_err(), Empty::NotPositive);
        assert_eq!(Span::new(std::iter::empty(), false, &log()).unwrap_err(), Empty::NoValues);
        let huge = Span::new([1e-300, 1e308].into_iter(), false, &log()).unwrap();
        assert!(huge.end().is_finite() && huge.start() > 0.0);
        assert_eq!(Span::new([f64::NAN].into_iter(), false, &Side::default()).unwrap_err(), Empty::NoValues);
    }

    #[test]
    fn limits_are_the_ends() {
        let span = Span::new([0.0, 100.0].into_iter(), false, &within(10.0, 20.0)).unwrap();
        assert_eq!(span.range(), 10.0..20.0);
        assert!(span.holds(20.0) && !span.holds(20.1));
        let half = Side { limits: [Some(500.0), None], ..Side::default() };
        assert_eq!(Span::new([0.0, 100.0].into_iter(), false, &half).unwrap_err(), Empty::Outside);
    }

    #[test]
    fn lines_end_where_the_plot_ends() {
        let (x, y) = (Span::linear(0.0, 10.0), Span::linear(0.0, 1.0));
        assert_eq!(visible(&[(0.0, 0.5), (10.0, 0.6)], &x, &y), [vec![(0.0, 0.5), (10.0, 0.6)]]);
        assert_eq!(visible(&[(0.0, -1.0), (10.0, 1.0)], &x, &y), [vec![(5.0, 0.0), (10.0, 1.0)]]);
        let pieces = visible(&[(0.0, 0.5), (2.0, 1.5), (4.0, 0.5), (6.0, 0.5)], &x, &y);
        assert_eq!(pieces, [vec![(0.0, 0.5), (1.0, 1.0)], vec![(3.0, 1.0), (4.0, 0.5), (6.0, 0.5)]]);
        assert!(visible(&[(0.0, 5.0), (10.0, 5.0)], &x, &y).is_empty());
    }
}
