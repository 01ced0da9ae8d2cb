//! One series of a program: its curve, of bounded size, and the values that can become its metric.
//!
//! A curve has at most [`MAX_POINTS`] points, in the order of their steps. With at most `MAX_POINTS - 2` steps it has every step, with the
//! step's newest value. With more, steps are divided into ranges of equal width, a power of two. The curve keeps the smallest and the
//! largest value of each range, and its own first and last point. Metrics are computed from all points, including the points that the curve
//! does not keep.

use serde::{Deserialize, Serialize};
use sweep_job::{Curve, Unit, tasks::Collect};

/// Maximum number of points of a curve.
pub(super) const MAX_POINTS: usize = 4000;

/// A value at a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(in super::super) struct Point {
    pub(in super::super) step: u64,
    /// The value, which is finite.
    pub(in super::super) value: f64,
}

/// The points in a range of steps.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Range {
    /// The range begins at the step `index << log_width`.
    index: u64,
    low: Point,
    high: Point,
    /// The newest value at the largest step of the range. A state of an earlier version has none.
    #[serde(default)]
    newest: Option<Point>,
    /// Sum of the values of all points, including the points that are not kept.
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
    /// The ranges, in ascending order.
    ranges: Vec<Range>,
    /// Number of points in `ranges` that the curve shows.
    kept: usize,
    /// The point that was reported first, and the newest one.
    first: Option<Point>,
    last: Option<Point>,
    /// The points of the smallest and of the largest step. A state of an earlier version has none: there they are
    /// `first` and `last`.
    #[serde(default)]
    start: Option<Point>,
    #[serde(default)]
    end: Option<Point>,
    /// True if the newest value was not finite.
    broken: bool,
    /// The first step of the uninterrupted series of non-finite values at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
}

impl Range {
    fn new(index: u64, point: Point) -> Self {
        Self { index, low: point, high: point, newest: Some(point), sum: point.value, count: 1 }
    }

    /// Number of points that the curve shows.
    fn kept(&self) -> usize {
        self.points().count()
    }

    /// Adds the points of another range, which were reported later.
    fn add(&mut self, other: &Self) {
        if other.low.value < self.low.value {
            self.low = other.low;
        }
        if other.high.value > self.high.value {
            self.high = other.high;
        }
        if self.newest().step <= other.newest().step {
            self.newest = other.newest;
        }
        self.sum += other.sum;
        self.count += other.count;
    }

    /// True if the curve shows a point of this step.
    fn has(&self, step: u64) -> bool {
        [self.low, self.high, self.newest()].iter().any(|point| point.step == step)
    }

    fn newest(&self) -> Point {
        self.newest.unwrap_or(self.low)
    }

    /// The points that the curve shows, in the order of their steps: the extremes, or, if these are of one step, the
    /// newest value.
    fn points(&self) -> impl Iterator<Item = Point> {
        let (low, high, newest) = (self.low, self.high, self.newest());
        let (first, second) = if low.step < high.step {
            (low, high)
        } else if high.step < low.step {
            (high, low)
        } else if newest.step == low.step {
            (newest, newest)
        } else {
            (low, newest)
        };
        std::iter::once(first).chain((first.step != second.step).then_some(second))
    }
}

impl Points {
    pub(super) fn new(unit: Unit) -> Self {
        let (first, last, start, end) = (None, None, None, None);
        Self { unit, log_width: 0, ranges: Vec::new(), kept: 0, first, last, start, end, broken: false, since: None }
    }

    /// Adds a point; a value that is not finite only marks the series as diverged. Returns false if the curve has a value of
    /// the same step: it may then no longer show that value.
    pub(super) fn push(&mut self, step: u64, value: f64) -> bool {
        if !value.is_finite() {
            self.since = self.since.filter(|_| self.broken).or(Some(step));
            self.broken = true;
            return true;
        }
        (self.broken, self.since) = (false, None);
        let point = Point { step, value };
        if self.start().is_none_or(|start| step <= start.step) {
            self.start = Some(point);
        }
        if self.end().is_none_or(|end| step >= end.step) {
            self.end = Some(point);
        }
        self.first.get_or_insert(point);
        self.last = Some(point);
        let range = Range::new(step >> self.log_width, point);
        let position = match self.ranges.last() {
            Some(last) if last.index >= range.index => {
                self.ranges.binary_search_by_key(&range.index, |candidate| candidate.index)
            }
            _ => Err(self.ranges.len()),
        };
        let is_again = position.is_ok_and(|index| self.ranges[index].has(step));
        match position {
            Ok(index) => {
                self.kept -= self.ranges[index].kept();
                self.ranges[index].add(&range);
                self.kept += self.ranges[index].kept();
            }
            Err(index) => {
                self.ranges.insert(index, range);
                self.kept += 1;
            }
        }
        self.fit();
        !is_again
    }

    /// The point of the smallest step.
    fn start(&self) -> Option<Point> {
        self.start.or(self.first)
    }

    /// The point of the largest step.
    pub(super) fn end(&self) -> Option<Point> {
        self.end.or(self.last)
    }

    /// Widens the ranges until the curve is short enough, with room for its first and last point.
    fn fit(&mut self) {
        while self.kept > MAX_POINTS - 2 {
            self.widen();
        }
    }

    /// Doubles the width of the ranges.
    fn widen(&mut self) {
        self.log_width += 1;
        let mut wide_ranges: Vec<Range> = Vec::with_capacity(self.ranges.len());
        for mut range in self.ranges.drain(..) {
            range.index >>= 1;
            match wide_ranges.last_mut().filter(|last| last.index == range.index) {
                Some(last) => last.add(&range),
                None => wide_ranges.push(range),
            }
        }
        self.kept = wide_ranges.iter().map(Range::kept).sum();
        self.ranges = wide_ranges;
    }

    /// Removes all points from `step` on.
    pub(super) fn cut(&mut self, step: u64) {
        if self.end().is_none_or(|end| end.step < step) {
            return;
        }
        while let Some(range) = self.ranges.pop() {
            let end = (u128::from(range.index) + 1) << self.log_width;
            if end <= u128::from(step) {
                self.ranges.push(range);
                break;
            }
            self.kept -= range.kept();
            // Of a range across `step`, only the kept points can be divided; its sum and count are computed from these points.
            let mut kept_points = range.points().filter(|point| point.step < step);
            let Some(first_point) = kept_points.next() else { continue };
            let mut remaining_range = Range::new(range.index, first_point);
            kept_points.for_each(|point| remaining_range.add(&Range::new(range.index, point)));
            self.kept += remaining_range.kept();
            self.ranges.push(remaining_range);
            break;
        }
        if self.ranges.is_empty() {
            self.log_width = 0;
        }
        let is_before = |point: &Point| point.step < step;
        self.start = self.start().filter(is_before);
        self.end = self.ranges.last().and_then(|range| range.points().last()).or(self.start);
        self.first = self.first.filter(is_before).or(self.start);
        self.last = self.last.filter(is_before).or(self.end);
        (self.broken, self.since) = (false, None);
    }

    /// Adds the points of a later attempt. All of their steps are larger than the steps of this series.
    pub(super) fn add(&mut self, mut later: Self) {
        while self.log_width < later.log_width {
            self.widen();
        }
        while later.log_width < self.log_width {
            later.widen();
        }
        for range in later.ranges.drain(..) {
            match self.ranges.last_mut().filter(|last| last.index == range.index) {
                Some(last) => last.add(&range),
                None => self.ranges.push(range),
            }
        }
        self.kept = self.ranges.iter().map(Range::kept).sum();
        (self.start, self.end) = (self.start().or(later.start()), later.end().or(self.end()));
        (self.first, self.last) = (self.first.or(later.first), later.last.or(self.last));
        (self.broken, self.since) = (later.broken, later.since);
        self.fit();
    }

    /// The newest point.
    pub(in super::super) fn last(&self) -> Option<Point> {
        self.last
    }

    /// True if the newest value was not finite.
    pub(super) fn is_diverged(&self) -> bool {
        self.broken
    }

    /// The first step of the uninterrupted series of non-finite values at the end.
    pub(super) fn since(&self) -> Option<u64> {
        self.since
    }

    /// The value that becomes the metric, with its step. `None` for a series whose newest value is not finite (it has
    /// diverged), unless `how` ignores divergence.
    pub(in super::super) fn collect(&self, how: Collect) -> Option<Point> {
        if self.broken && !how.ignores_divergence() {
            return None;
        }
        let extreme = |select: fn(&Range) -> Point, better: fn(f64, f64) -> bool| {
            let points = self.ranges.iter().map(select);
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

    pub(in super::super) fn curve(&self) -> Curve {
        let mut points: Vec<Point> = Vec::with_capacity(self.kept + 2);
        points.extend(self.start());
        for point in self.ranges.iter().flat_map(Range::points).chain(self.end()) {
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
        for (step, value) in values {
            points.push(step, value);
        }
        points
    }

    /// A pseudo-random value from 0 to 1.
    fn noise(step: u64) -> f64 {
        (step.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64
            / (1_u64 << 53) as f64
    }

    #[test]
    fn up_to_the_limit_every_point_is_kept() {
        let all: Vec<(u64, f64)> = (0..MAX_POINTS as u64 - 2).map(|step| (step * 7, noise(step))).collect();
        let curve = points(all.clone()).curve();
        assert_eq!(curve.at.into_iter().zip(curve.values).collect::<Vec<_>>(), all);
    }

    #[test]
    fn thinning_keeps_the_ends_and_every_extreme() {
        for (count, spacing) in [(3999, 1), (5000, 1), (100_000, 3), (1_000_000, 1)] {
            let all_points: Vec<(u64, f64)> = (1..=count).map(|step| (step * spacing, noise(step))).collect();
            let curve_points = points(all_points.clone());
            let curve = curve_points.curve();
            assert!((1000..=MAX_POINTS).contains(&curve.at.len()), "{count}: {}", curve.at.len());
            assert!(curve.at.windows(2).all(|pair| pair[0] < pair[1]));
            let kept_points: Vec<(u64, f64)> = curve.at.iter().copied().zip(curve.values.iter().copied()).collect();
            assert_eq!((kept_points.first(), kept_points.last()), (all_points.first(), all_points.last()));
            // Every range of steps has its own extremes.
            let width = (count * spacing / 500).next_power_of_two();
            let mut start = 0;
            while start <= count * spacing {
                let part = |pairs: &[(u64, f64)]| {
                    let values =
                        pairs.iter().filter(|(step, _)| (start..start + width).contains(step)).map(|(_, value)| *value);
                    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                        (low.min(value), high.max(value))
                    })
                };
                if count <= 100_000 {
                    assert_eq!(part(&all_points), part(&kept_points), "{count}: from {start}");
                }
                start += width;
            }
            let value_of = |how| curve_points.collect(how).map(|point| (point.step, point.value));
            let low = all_points.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
            let high = all_points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
            assert_eq!((value_of(Collect::Min), value_of(Collect::Max)), (low, high));
            let mean = all_points.iter().map(|(_, value)| value).sum::<f64>() / count as f64;
            assert!((value_of(Collect::Mean).map_or(f64::NAN, |(_, value)| value) - mean).abs() < 1e-12);
        }
    }

    #[test]
    fn steps_far_apart_are_bounded_too() {
        let steps = (0..20_000).map(|index| if index % 2 == 0 { index } else { u64::MAX - 40_000 + index });
        let mut sorted: Vec<u64> = steps.collect();
        sorted.sort_unstable();
        let curve = points(sorted.into_iter().map(|step| (step, noise(step)))).curve();
        assert!(curve.at.len() <= MAX_POINTS);
        assert_eq!((curve.at.first(), curve.at.last()), (Some(&0), Some(&(u64::MAX - 40_000 + 19_999))));
    }

    /// The points of an attempt, and of a later attempt that resumed at its first step.
    fn resumed(first: impl Iterator<Item = u64>, second: impl Iterator<Item = u64> + Clone) -> Points {
        let mut merged_points = points(first.map(|step| (step, noise(step))));
        merged_points.cut(second.clone().min().unwrap_or(u64::MAX));
        merged_points.add(points(second.map(|step| (step, noise(step)))));
        merged_points
    }

    #[test]
    fn a_resumed_run_has_the_curve_of_one_in_one_piece() {
        let single_run = points((0..12_000).map(|step| (step, noise(step))));
        assert_eq!(resumed(0..10_000, 7000..12_000).curve(), single_run.curve());
        assert_eq!(resumed(0..100, 0..10).curve().at, (0..10).collect::<Vec<_>>());
        let merged_points = resumed(0..100, 50..200);
        let mean = (0..200).map(noise).sum::<f64>() / 200.0;
        assert!((merged_points.collect(Collect::Mean).map_or(f64::NAN, |mean| mean.value) - mean).abs() < 1e-12);
    }

    #[test]
    fn steps_out_of_order_count_and_are_sorted() {
        let unsorted_points = points([(100, 0.5), (300, 0.9), (200, 0.7)]);
        let value = |how| unsorted_points.collect(how).map(|point| (point.step, point.value));
        assert_eq!((value(Collect::Max), value(Collect::Min)), (Some((300, 0.9)), Some((100, 0.5))));
        assert_eq!((value(Collect::First), value(Collect::Last)), (Some((100, 0.5)), Some((200, 0.7))));
        assert_eq!(
            (unsorted_points.curve().at, unsorted_points.curve().values),
            (vec![100, 200, 300], vec![0.5, 0.7, 0.9])
        );
        let backwards = points((0..20_000).rev().map(|step| (step, noise(step))));
        let forwards = points((0..20_000).map(|step| (step, noise(step))));
        assert_eq!(backwards.curve(), forwards.curve());
        let mut many = Points::new(Unit::One);
        assert!((0..20_000).rev().all(|step| many.push(step, noise(step))), "no step has two values");
    }

    #[test]
    fn a_counter_that_restarts_counts_all_its_values() {
        let mut counter_points = Points::new(Unit::One);
        let shown_flags: Vec<bool> =
            (0..9_u32).map(|value| counter_points.push(u64::from(value) % 3, f64::from(value))).collect();
        assert_eq!(shown_flags, [true, true, true, false, false, false, false, false, false]);
        let value = |how| counter_points.collect(how).map(|point| point.value);
        assert_eq!((value(Collect::Mean), value(Collect::Min), value(Collect::Max)), (Some(4.0), Some(0.0), Some(8.0)));
        assert_eq!((value(Collect::First), value(Collect::Last)), (Some(0.0), Some(8.0)));
        assert_eq!((counter_points.curve().at, counter_points.curve().values), (vec![0, 1, 2], vec![6.0, 7.0, 8.0]));
        let epochs = (0..3).flat_map(|epoch| (0..10_000).map(move |step| (step, noise(epoch * 10_000 + step))));
        let epoch_points = points(epochs);
        let mean = (0..30_000).map(noise).sum::<f64>() / 30_000.0;
        assert!((epoch_points.collect(Collect::Mean).map_or(f64::NAN, |mean| mean.value) - mean).abs() < 1e-12);
        let curve = epoch_points.curve();
        assert!(curve.at.len() <= MAX_POINTS && curve.at.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((curve.at.last(), curve.values.last().copied()), (Some(&9999), Some(noise(29_999))));
    }

    #[test]
    fn a_state_of_an_earlier_version_is_read() {
        let text = r#"{"unit":"1","log_width":0,"ranges":[{"index":1,"low":{"step":1,"value":5.0},"high":{"step":1,"value":5.0},"sum":5.0,"count":1}],"kept":1,"first":{"step":1,"value":5.0},"last":{"step":1,"value":5.0},"broken":false}"#;
        let mut loaded_points: Points = serde_json::from_str(text).unwrap();
        loaded_points.push(2, 3.0);
        assert_eq!((loaded_points.curve().at, loaded_points.curve().values), (vec![1, 2], vec![5.0, 3.0]));
    }

    #[test]
    fn equal_extremes_are_the_first() {
        let equal_points = points([(1, 2.0), (2, 1.0), (3, 1.0), (4, 2.0)]);
        let step = |how| equal_points.collect(how).map(|point| point.step);
        assert_eq!((step(Collect::Min), step(Collect::Max)), (Some(2), Some(1)));
    }

    #[test]
    fn a_newest_value_that_is_no_number_is_no_last_value() {
        let diverged_points = points([(1, 2.0), (2, 1.0), (3, f64::NAN)]);
        assert_eq!(diverged_points.collect(Collect::Last), None);
        for how in [Collect::Min, Collect::Max, Collect::Mean] {
            assert_eq!(diverged_points.collect(how), None, "{how:?}");
        }
        assert_eq!(diverged_points.collect(Collect::MinFinite).map(|point| point.value), Some(1.0));
        assert_eq!(diverged_points.collect(Collect::First).map(|point| point.value), Some(2.0));
        let recovered_points = points([(1, f64::NAN), (2, 1.0)]);
        assert_eq!(recovered_points.collect(Collect::Last).map(|point| point.value), Some(1.0));
    }
}
