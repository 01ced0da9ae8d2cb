//! One series of a program: its curve, of bounded size, and the values that can become its metric.
//!
//! A curve has at most [`MOST`] points. Up to there it has every point. Beyond, steps are divided into ranges of the
//! same width, a power of two, and of each range the smallest and the largest value are kept, and of the whole the
//! first and the last. The same points give the same curve, however many attempts they took.

use serde::{Deserialize, Serialize};
use sweep_job::{Curve, Unit, tasks::Collect};

/// Most points of a curve.
pub(super) const MOST: usize = 4000;

/// A value at a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct Point {
    pub(in super::super) step: u64,
    /// Finite.
    pub(in super::super) value: f64,
}

/// The points in a range of steps.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Range {
    /// The range begins at this number times the width.
    index: u64,
    low: Point,
    high: Point,
    /// Of all points, also of those that are not kept.
    sum: f64,
    count: u64,
}

/// A series.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct Points {
    /// Unit of the values.
    pub(in super::super) unit: Unit,
    /// Base-2 logarithm of the width of a range.
    log_width: u32,
    ranges: Vec<Range>,
    /// Number of points in `ranges`.
    kept: usize,
    first: Option<Point>,
    last: Option<Point>,
    /// True if the newest value was not finite.
    broken: bool,
}

impl Range {
    fn new(index: u64, point: Point) -> Self {
        Self { index, low: point, high: point, sum: point.value, count: 1 }
    }

    /// Number of kept points.
    fn kept(&self) -> usize {
        if self.low.step == self.high.step { 1 } else { 2 }
    }

    /// Adds what comes later.
    fn add(&mut self, later: &Self) {
        if later.low.value < self.low.value {
            self.low = later.low;
        }
        if later.high.value > self.high.value {
            self.high = later.high;
        }
        self.sum += later.sum;
        self.count += later.count;
    }

    /// The kept points in the order of their steps.
    fn points(&self) -> impl Iterator<Item = Point> {
        let (one, other) = if self.low.step <= self.high.step { (self.low, self.high) } else { (self.high, self.low) };
        std::iter::once(one).chain((one.step != other.step).then_some(other))
    }
}

impl Points {
    pub(super) fn new(unit: Unit) -> Self {
        Self { unit, log_width: 0, ranges: Vec::new(), kept: 0, first: None, last: None, broken: false }
    }

    /// Adds a point. One at or before the last step replaces everything from its step on; a value that is not finite is
    /// no point, but replaces, too.
    pub(super) fn push(&mut self, step: u64, value: f64) {
        self.cut(step);
        self.broken = !value.is_finite();
        if self.broken {
            return;
        }
        let point = Point { step, value };
        self.first.get_or_insert(point);
        self.last = Some(point);
        let range = Range::new(step >> self.log_width, point);
        match self.ranges.last_mut().filter(|last| last.index == range.index) {
            Some(last) => {
                self.kept -= last.kept();
                last.add(&range);
                self.kept += last.kept();
            }
            None => {
                self.ranges.push(range);
                self.kept += 1;
            }
        }
        // The first and the last may have to be added.
        while self.kept > MOST - 2 {
            self.widen();
        }
    }

    /// Doubles the width of the ranges.
    fn widen(&mut self) {
        self.log_width += 1;
        let mut wide: Vec<Range> = Vec::with_capacity(self.ranges.len());
        for mut range in self.ranges.drain(..) {
            range.index >>= 1;
            match wide.last_mut().filter(|last| last.index == range.index) {
                Some(last) => last.add(&range),
                None => wide.push(range),
            }
        }
        self.kept = wide.iter().map(Range::kept).sum();
        self.ranges = wide;
    }

    /// Removes everything from a step on.
    pub(super) fn cut(&mut self, step: u64) {
        if self.last.is_none_or(|last| last.step < step) {
            return;
        }
        while let Some(range) = self.ranges.pop() {
            let end = (u128::from(range.index) + 1) << self.log_width;
            if end <= u128::from(step) {
                self.ranges.push(range);
                break;
            }
            self.kept -= range.kept();
            // Of a range that began earlier, only the kept points are known.
            let mut left = range.points().filter(|point| point.step < step);
            let Some(first) = left.next() else { continue };
            let mut rest = Range::new(range.index, first);
            left.for_each(|point| rest.add(&Range::new(range.index, point)));
            self.kept += rest.kept();
            self.ranges.push(rest);
            break;
        }
        if self.ranges.is_empty() {
            self.log_width = 0;
        }
        self.first = self.first.filter(|first| first.step < step);
        let before = self.ranges.last().and_then(|range| range.points().last());
        self.last = before.or(self.first);
        self.broken = false;
    }

    /// The newest point.
    pub(in super::super) fn last(&self) -> Option<Point> {
        self.last
    }

    /// True if the newest value was not finite.
    pub(super) fn is_diverged(&self) -> bool {
        self.broken
    }

    /// The value that becomes the metric, with its step. A series whose newest value is not finite has diverged, and has none
    /// unless `how` says otherwise.
    pub(in super::super) fn collect(&self, how: Collect) -> Option<Point> {
        if self.broken && !how.ignores_divergence() {
            return None;
        }
        let extreme = |of: fn(&Range) -> Point, better: fn(f64, f64) -> bool| {
            let points = self.ranges.iter().map(of);
            points.reduce(|best, point| if better(point.value, best.value) { point } else { best })
        };
        match how {
            Collect::Last | Collect::LastFinite => self.last,
            Collect::First => self.first,
            Collect::Min | Collect::MinFinite => extreme(|range| range.low, |a, b| a < b),
            Collect::Max | Collect::MaxFinite => extreme(|range| range.high, |a, b| a > b),
            Collect::Mean | Collect::MeanFinite => {
                let (sum, count) =
                    self.ranges.iter().fold((0.0, 0), |(sum, count), range| (sum + range.sum, count + range.count));
                let mean = Point { step: self.last?.step, value: sum / count as f64 };
                Some(mean).filter(|mean| mean.value.is_finite())
            }
        }
    }

    /// The curve.
    pub(in super::super) fn curve(&self) -> Curve {
        let mut points: Vec<Point> = Vec::with_capacity(self.kept + 2);
        points.extend(self.first);
        for point in self.ranges.iter().flat_map(Range::points).chain(self.last) {
            if points.last().is_none_or(|last| last.step < point.step) {
                points.push(point);
            }
        }
        Curve {
            unit: self.unit,
            at: points.iter().map(|point| point.step).collect(),
            values: points.iter().map(|point| point.value).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: impl IntoIterator<Item = (u64, f64)>) -> Points {
        let mut points = Points::new(Unit::One);
        values.into_iter().for_each(|(step, value)| points.push(step, value));
        points
    }

    /// A value without pattern, from 0 to 1.
    fn noise(step: u64) -> f64 {
        (step.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64
            / (1_u64 << 53) as f64
    }

    #[test]
    fn up_to_the_limit_every_point_is_kept() {
        let all: Vec<(u64, f64)> = (0..MOST as u64 - 2).map(|step| (step * 7, noise(step))).collect();
        let curve = points(all.clone()).curve();
        assert_eq!(curve.at.into_iter().zip(curve.values).collect::<Vec<_>>(), all);
    }

    #[test]
    fn thinning_keeps_the_ends_and_every_extreme() {
        for (count, spacing) in [(3999, 1), (5000, 1), (100_000, 3), (1_000_000, 1)] {
            let all: Vec<(u64, f64)> = (1..=count).map(|step| (step * spacing, noise(step))).collect();
            let thin = points(all.clone());
            let curve = thin.curve();
            assert!((1000..=MOST).contains(&curve.at.len()), "{count}: {}", curve.at.len());
            assert!(curve.at.windows(2).all(|pair| pair[0] < pair[1]));
            let kept: Vec<(u64, f64)> = curve.at.iter().copied().zip(curve.values.iter().copied()).collect();
            assert_eq!((kept.first(), kept.last()), (all.first(), all.last()));
            // Every range of steps has its own extremes.
            let width = (count * spacing / 500).next_power_of_two();
            let mut from = 0;
            while from <= count * spacing {
                let part = |of: &[(u64, f64)]| {
                    let values =
                        of.iter().filter(|(step, _)| (from..from + width).contains(step)).map(|(_, value)| *value);
                    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                        (low.min(value), high.max(value))
                    })
                };
                if count <= 100_000 {
                    assert_eq!(part(&all), part(&kept), "{count}: from {from}");
                }
                from += width;
            }
            let best = |how| thin.collect(how).map(|point| (point.step, point.value));
            let low = all.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
            let high = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            assert_eq!((best(Collect::Min), best(Collect::Max)), (low, high));
            let mean = all.iter().map(|(_, value)| value).sum::<f64>() / count as f64;
            assert!((best(Collect::Mean).map_or(f64::NAN, |(_, value)| value) - mean).abs() < 1e-12);
        }
    }

    #[test]
    fn steps_far_apart_are_bounded_too() {
        let steps = (0..20_000).map(|index| if index % 2 == 0 { index } else { u64::MAX - 40_000 + index });
        let mut sorted: Vec<u64> = steps.collect();
        sorted.sort_unstable();
        let curve = points(sorted.into_iter().map(|step| (step, noise(step)))).curve();
        assert!(curve.at.len() <= MOST);
        assert_eq!((curve.at.first(), curve.at.last()), (Some(&0), Some(&(u64::MAX - 40_000 + 19_999))));
    }

    #[test]
    fn a_step_back_replaces_what_came_after_it() {
        let curve = points([(1, 5.0), (2, 4.0), (3, 3.0), (2, 7.0), (4, 6.0)]).curve();
        assert_eq!((curve.at, curve.values), (vec![1, 2, 4], vec![5.0, 7.0, 6.0]));
        let resumed = points((0..10_000).chain(7000..12_000).map(|step| (step, noise(step))));
        let whole = points((0..12_000).map(|step| (step, noise(step))));
        assert_eq!(resumed.curve(), whole.curve(), "a resumed run has the curve of one in one piece");
        let restarted = points((0..10_000).chain(0..10).map(|step| (step, noise(step))));
        assert_eq!(restarted.curve().at, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn equal_extremes_are_the_first() {
        let flat = points([(1, 2.0), (2, 1.0), (3, 1.0), (4, 2.0)]);
        let step = |how| flat.collect(how).map(|point| point.step);
        assert_eq!((step(Collect::Min), step(Collect::Max)), (Some(2), Some(1)));
    }

    #[test]
    fn a_newest_value_that_is_no_number_is_no_last_value() {
        let diverged = points([(1, 2.0), (2, 1.0), (3, f64::NAN)]);
        assert_eq!(diverged.collect(Collect::Last), None);
        for how in [Collect::Min, Collect::Max, Collect::Mean] {
            assert_eq!(diverged.collect(how), None, "{how:?}");
        }
        assert_eq!(diverged.collect(Collect::MinFinite).map(|point| point.value), Some(1.0));
        assert_eq!(diverged.collect(Collect::First).map(|point| point.value), Some(2.0));
        let recovered = points([(1, f64::NAN), (2, 1.0)]);
        assert_eq!(recovered.collect(Collect::Last).map(|point| point.value), Some(1.0));
    }
}
