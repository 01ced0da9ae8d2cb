//! Curves of metrics in the records of jobs, and the numbers that can be read off a curve.

use std::collections::BTreeMap;

use sweep_job::{Curve, Metric};

use crate::{record::Key, stats::Better, store::Store};

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
