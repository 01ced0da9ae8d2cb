//! Curves of metrics in the records of jobs, and the numbers that can be read off a curve.

use std::collections::BTreeMap;

use sweep_job::{Curve, Metric};

use crate::{recipe::CurveRead, record::Key, stats::Better, store::Store};

/// The curves of metrics, by record and metric.
pub(super) type Curves = BTreeMap<(Key, String), Curve>;

/// Number of values in the mean of a curve's end.
const END: usize = 5;
/// Relative difference below which a metric is a number that is read off its curve.
const TOLERANCE: f64 = 1e-9;

/// A number that is read off a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The last value.
    Last,
    /// The smallest or the largest value, whichever is better.
    Best,
    /// The mean of the last five values.
    End,
}

impl Reading {
    pub(super) const ALL: [Self; 3] = [Self::Last, Self::Best, Self::End];

    /// The reading in words.
    pub(super) fn words(self, better: Better) -> String {
        match (self, better) {
            (Self::Last, _) => "the last value of the curve".to_owned(),
            (Self::Best, Better::Less) => "the smallest value of the curve".to_owned(),
            (Self::Best, Better::More) => "the largest value of the curve".to_owned(),
            (Self::End, _) => format!("the mean of the last {END} values of the curve"),
        }
    }

    /// The number, in the unit of the metric; `None` if the curve is too short or measures something else.
    pub(super) fn of(self, curve: &Curve, metric: Metric, better: Better) -> Option<f64> {
        let values = &curve.values;
        let value = match (self, better) {
            (Self::Last, _) => *values.last()?,
            (Self::Best, Better::Less) => values.iter().copied().reduce(f64::min)?,
            (Self::Best, Better::More) => values.iter().copied().reduce(f64::max)?,
            // With fewer, it would be the mean of most of the curve.
            (Self::End, _) if values.len() < 2 * END => return None,
            (Self::End, _) => values[values.len() - END..].iter().sum::<f64>() / END as f64,
        };
        let value = curve.unit.is_like(metric.unit).then(|| curve.unit.convert(value, metric.unit))?;
        value.is_finite().then_some(value)
    }

    /// True if the metric is this number.
    pub(super) fn is(self, curve: &Curve, metric: Metric, better: Better) -> bool {
        let distance = self.of(curve, metric, better).map(|value| (value - metric.value).abs());
        distance.is_some_and(|distance| distance <= TOLERANCE * metric.value.abs())
    }
}

/// Reads the curves of metrics from records. Records that cannot be read, and metrics without a curve, have none.
pub(super) fn load<'m>(wanted: impl IntoIterator<Item = (Key, &'m str)>, store: &Store) -> Curves {
    let mut by_record: BTreeMap<Key, Vec<&str>> = BTreeMap::new();
    for (key, metric) in wanted {
        by_record.entry(key).or_default().push(metric);
    }
    let mut curves = Curves::new();
    for (key, metrics) in by_record {
        let Some(mut record) = store.get(key).ok().flatten() else { continue };
        for metric in metrics {
            let curve = record.outcome.curves.remove(metric).filter(|curve| !curve.values.is_empty());
            curves.extend(curve.map(|curve| ((key, metric.to_owned()), curve)));
        }
    }
    curves
}

/// A number of a curve, in the curve's unit or in steps; `None` if the curve has none. Values that are not finite count as none.
pub(super) fn read_off(curve: &Curve, number: CurveRead, better: Option<Better>) -> Option<f64> {
    let points = curve.at.iter().map(|at| *at as f64).zip(curve.values.iter().copied());
    let points: Vec<(f64, f64)> = points.filter(|(_, value)| value.is_finite()).collect();
    match number {
        CurveRead::Target(target) => first_at(&points, target, better?),
        CurveRead::Area(end) => mean_height(&points, end),
        CurveRead::At(place) => value_at(&points, place),
    }
}

/// The first place at which the value is at least as good as `target`.
pub(super) fn first_at(points: &[(f64, f64)], target: f64, better: Better) -> Option<f64> {
    let is_reached = |value: f64| if better == Better::Less { value <= target } else { value >= target };
    points.iter().find(|(_, value)| is_reached(*value)).map(|(place, _)| *place)
}

/// The value at a place, interpolated linearly; `None` outside of the curve.
pub(super) fn value_at(points: &[(f64, f64)], place: f64) -> Option<f64> {
    let next = points.iter().position(|(at, _)| *at >= place)?;
    let (at, value) = points[next];
    if at == place {
        return Some(value);
    }
    let (start, from) = *points.get(next.checked_sub(1)?)?;
    Some(from + (value - from) * (place - start) / (at - start))
}

/// The mean height from the first point up to a place (trapezoids); `None` if the curve ends before.
pub(super) fn mean_height(points: &[(f64, f64)], end: f64) -> Option<f64> {
    let last = value_at(points, end)?;
    let mut within: Vec<(f64, f64)> = points.iter().copied().filter(|(at, _)| *at < end).collect();
    within.push((end, last));
    let (first, _) = within[0];
    if first >= end {
        return Some(last);
    }
    let area: f64 = within.windows(2).map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1)).sum();
    Some(area / (end - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with `numpy.interp` and `numpy.trapezoid`.
    #[test]
    fn heights_are_numpys() {
        let points = [(1.0, 4.0), (3.0, 2.0), (6.0, 1.4), (10.0, 1.0)];
        assert!((value_at(&points, 5.0).unwrap() - 1.6).abs() < 1e-12);
        assert_eq!((value_at(&points, 3.0), value_at(&points, 0.5), value_at(&points, 11.0)), (Some(2.0), None, None));
        assert!((mean_height(&points, 10.0).unwrap() - 15.9 / 9.0).abs() < 1e-12);
        assert!((mean_height(&points, 5.0).unwrap() - 9.6 / 4.0).abs() < 1e-12);
        assert_eq!(mean_height(&points, 11.0), None);
    }
}
