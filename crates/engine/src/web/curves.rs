//! Curves of many jobs for one chart, as binary columns that are thinned out to the points that a chart can show.
//!
//! An answer has, for each job with the series, two little-endian `u32` (the index of the job in the run and the number of
//! points), then the places and the values of the points as little-endian `f64`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    extract::{Path as UrlPath, Query, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use sweep_job::{Curve, Unit};

use super::{Site, read, runs};
use crate::{
    record::Key,
    run::RunFolder,
    store::{Stamp, Store},
};

/// Maximum number of jobs of a request.
const MAX_JOBS: usize = 256;
/// Maximum number of points of a curve.
const MAX_POINTS: usize = 4000;
/// Maximum size of the series that are kept in memory, in numbers of 8 bytes.
const MAX_KEPT: usize = 24 << 20;

/// Series of records that requests have read, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Series>);

#[derive(Debug, Default)]
struct Series {
    order: VecDeque<Key>,
    of: BTreeMap<Key, (Stamp, Arc<BTreeMap<String, Curve>>)>,
    size: usize,
}

/// A request.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// Indices of jobs of the run and ranges of them: `0-99,104`.
    jobs: String,
    /// Name of the series.
    y: String,
    /// Name of the series that gives the places; without one, the steps are the places.
    #[serde(default)]
    x: String,
    /// Maximum number of points of a curve.
    points: usize,
    /// First and last place of interest.
    from: Option<f64>,
    to: Option<f64>,
    /// True for means of neighboring points instead of their extremes.
    #[serde(default)]
    mean: bool,
}

/// Responds with curves of jobs of a run.
pub(super) async fn read_curves(
    State(site): State<Arc<Site>>,
    UrlPath(run): UrlPath<String>,
    query: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let refusal = |text: String| (StatusCode::BAD_REQUEST, text).into_response();
    let parameters = match query {
        Ok(Query(parameters)) => parameters,
        Err(error) => return refusal(error.body_text()),
    };
    let Some(jobs) = indices(&parameters.jobs) else {
        return refusal(format!("`jobs` must be up to {MAX_JOBS} indices and ranges, as in 0-99,104"));
    };
    if !(2..=MAX_POINTS).contains(&parameters.points) {
        return refusal(format!("`points` must be from 2 to {MAX_POINTS}"));
    }
    match read(move || columns(&site, &run, &jobs, &parameters)).await {
        Ok(Some(bytes)) => {
            let headers = [(header::CACHE_CONTROL, "no-store"), (header::CONTENT_TYPE, "application/octet-stream")];
            (headers, bytes).into_response()
        }
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(response) => response,
    }
}

/// Parses indices and ranges of them; `None` if they are malformed or too many.
fn indices(text: &str) -> Option<Vec<usize>> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first >= MAX_JOBS - list.len() {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

fn columns(site: &Site, run: &str, jobs: &[usize], parameters: &Asked) -> Option<Vec<u8>> {
    let folder = runs::find(&site.results, run)?;
    let manifest = folder.manifest().ok()?;
    let store = Store::new(&site.results);
    let units = units(site, &folder);
    let mut bytes = Vec::new();
    for index in jobs {
        let Some(job) = manifest.jobs.get(*index) else { continue };
        let Some(curves) = site.series.of(&store, job.key).or_else(|| reported(site, &folder, *index)) else {
            continue;
        };
        let Some(points) = points(&curves, parameters, &units).filter(|points| !points.is_empty()) else { continue };
        let (Ok(index), Ok(count)) = (u32::try_from(*index), u32::try_from(points.len())) else { continue };
        bytes.extend([index, count].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(points.iter().flat_map(|(x, _)| x.to_le_bytes()));
        bytes.extend(points.iter().flat_map(|(_, y)| y.to_le_bytes()));
    }
    Some(bytes)
}

/// The units of the series of a run, in which curves of all of its jobs are drawn.
fn units(site: &Site, folder: &RunFolder) -> BTreeMap<String, Unit> {
    let Ok(run) = site.followed.run(folder.clone(), &site.results) else { return BTreeMap::new() };
    let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
    if run.series.is_empty() {
        let _ = run.look_with(|key, stamp, curves| drop(site.series.keep(key, stamp, curves)));
    }
    run.series.clone()
}

/// The series that a job without a record has reported in a run.
fn reported(site: &Site, folder: &RunFolder, index: usize) -> Option<Arc<BTreeMap<String, Curve>>> {
    let run = site.followed.run(folder.clone(), &site.results).ok()?;
    let run = run.lock().unwrap_or_else(PoisonError::into_inner);
    let curves = run.curves(index).iter().map(|curve| {
        let (at, values) = curve.points.iter().copied().unzip();
        (curve.name.clone(), Curve { unit: Unit::One, at, values })
    });
    Some(Arc::new(curves.collect()))
}

impl Kept {
    /// The series of a record; `None` if the job has no valid record.
    fn of(&self, store: &Store, key: Key) -> Option<Arc<BTreeMap<String, Curve>>> {
        let stamp = store.stamp(key)?;
        let entry = self.0.lock().unwrap_or_else(PoisonError::into_inner).of.get(&key).cloned();
        if let Some((_, curves)) = entry.filter(|(cached, _)| *cached == stamp) {
            return Some(curves);
        }
        // Reading takes long, so the lock is not held meanwhile.
        Some(self.keep(key, stamp, store.get(key).ok().flatten()?.outcome.curves))
    }

    /// Keeps the series of a record that was read when it had this stamp.
    pub(super) fn keep(&self, key: Key, stamp: Stamp, curves: BTreeMap<String, Curve>) -> Arc<BTreeMap<String, Curve>> {
        let curves = Arc::new(curves);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keep(key, stamp, &curves);
        curves
    }
}

impl Series {
    fn keep(&mut self, key: Key, stamp: Stamp, curves: &Arc<BTreeMap<String, Curve>>) {
        self.drop_one(key);
        self.size += size(curves);
        self.order.push_back(key);
        self.of.insert(key, (stamp, Arc::clone(curves)));
        while self.size > MAX_KEPT && self.order.len() > 1 {
            let oldest = self.order[0];
            self.drop_one(oldest);
        }
    }

    fn drop_one(&mut self, key: Key) {
        if let Some((_, curves)) = self.of.remove(&key) {
            self.size -= size(&curves);
            self.order.retain(|known| *known != key);
        }
    }
}

/// Numbers in series.
fn size(curves: &BTreeMap<String, Curve>) -> usize {
    curves.values().map(|curve| curve.at.len() + curve.values.len()).sum()
}

/// The points of a curve that a chart shows, in the units of the series. A curve in a unit that cannot be converted has none.
fn points(
    curves: &BTreeMap<String, Curve>,
    parameters: &Asked,
    units: &BTreeMap<String, Unit>,
) -> Option<Vec<(f64, f64)>> {
    let of = |name: &String| {
        let curve = curves.get(name)?;
        match units.get(name) {
            // Values that a job without a record has reported have no unit.
            Some(unit) if *unit != curve.unit && curve.unit != Unit::One => curve.in_unit(*unit).map(Cow::Owned),
            _ => Some(Cow::Borrowed(curve)),
        }
    };
    let curve = of(&parameters.y)?;
    let readings = curve.at.iter().copied().zip(curve.values.iter().copied());
    let mut points: Vec<(f64, f64)> = if parameters.x.is_empty() {
        readings.map(|(at, value)| (at as f64, value)).collect()
    } else {
        let places = of(&parameters.x)?;
        let place = |at: u64| Some(places.values[places.at.binary_search(&at).ok()?]);
        readings.filter_map(|(at, value)| Some((place(at)?, value))).collect()
    };
    points.retain(|(x, y)| x.is_finite() && y.is_finite());
    // A series that goes back and forth, such as a learning rate with a warmup, leaves the points in the order of the steps.
    if !points.is_sorted_by(|one, other| one.0 <= other.0) {
        return Some(thinned(&points, parameters.points, parameters.mean));
    }
    // The neighbors outside stay, so that lines lead to the edge.
    let begin = parameters.from.map_or(0, |from| points.partition_point(|(x, _)| *x < from).saturating_sub(1));
    let end =
        parameters.to.map_or(points.len(), |to| (points.partition_point(|(x, _)| *x <= to) + 1).min(points.len()));
    Some(thinned(points.get(begin..end)?, parameters.points, parameters.mean))
}

/// Thins `points` to at most `max_points`: each group of neighbors keeps its lowest and its highest point in their order, or its mean.
fn thinned(points: &[(f64, f64)], max_points: usize, mean: bool) -> Vec<(f64, f64)> {
    if points.len() <= max_points {
        return points.to_vec();
    }
    let groups = if mean { max_points } else { max_points / 2 };
    let mut thin = Vec::with_capacity(max_points);
    for group in 0..groups {
        let part = &points[group * points.len() / groups..(group + 1) * points.len() / groups];
        if mean {
            let count = part.len() as f64;
            let sum = part.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
            thin.push((sum.0 / count, sum.1 / count));
            continue;
        }
        let by_value = |one: &usize, other: &usize| part[*one].1.total_cmp(&part[*other].1);
        let (Some(low), Some(high)) = ((0..part.len()).min_by(by_value), (0..part.len()).max_by(by_value)) else {
            continue;
        };
        thin.push(part[low.min(high)]);
        if part[low] != part[high] {
            thin.push(part[low.max(high)]);
        }
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_ranges_are_read_and_limited() {
        assert_eq!(indices("0-2,7"), Some(vec![0, 1, 2, 7]));
        assert_eq!(indices("0-255").map(|list| list.len()), Some(256));
        for malformed in ["", "a", "3-1", "0-256", "0-255,300", "0-18446744073709551615", "-1", "1,", "1-2-3"] {
            assert_eq!(indices(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn a_thinned_curve_keeps_its_extremes_and_its_mean() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), 1.0)).collect();
        (points[4321].1, points[8765].1) = (50.0, -50.0);
        let thin = thinned(&points, 200, false);
        assert!(thin.len() <= 200 && thin.is_sorted_by(|one, other| one.0 < other.0));
        assert!(thin.contains(&(4321.0, 50.0)) && thin.contains(&(8765.0, -50.0)));
        let means = thinned(&points, 200, true);
        assert_eq!(means.len(), 200);
        assert_eq!(means[0], (24.5, 1.0));
        // Groups of equal size have the mean of all points: (9998 + 50 - 50) / 10000.
        assert!((means.iter().map(|(_, y)| y).sum::<f64>() / 200.0 - 0.9998).abs() < 1e-12);
        assert_eq!(thinned(&points[..5], 200, true), points[..5]);
    }

    #[test]
    fn places_are_steps_or_another_series_and_can_be_limited() {
        let curve = |at: Vec<u64>, values: Vec<f64>| Curve { unit: sweep_job::Unit::One, at, values };
        let curves = BTreeMap::from([
            ("loss".to_owned(), curve(vec![1, 2, 3, 4], vec![4.0, f64::NAN, 2.0, 1.0])),
            ("tokens".to_owned(), curve(vec![1, 3, 4], vec![10.0, 30.0, 40.0])),
        ]);
        let request = |x: &str, from| Asked {
            jobs: String::new(),
            y: "loss".to_owned(),
            x: x.to_owned(),
            points: 10,
            from,
            to: None,
            mean: false,
        };
        let points = |curves: &_, request: &_| super::points(curves, request, &BTreeMap::new());
        assert_eq!(points(&curves, &request("", None)), Some(vec![(1.0, 4.0), (3.0, 2.0), (4.0, 1.0)]));
        assert_eq!(points(&curves, &request("tokens", None)), Some(vec![(10.0, 4.0), (30.0, 2.0), (40.0, 1.0)]));
        assert_eq!(points(&curves, &request("", Some(3.5))), Some(vec![(3.0, 2.0), (4.0, 1.0)]));
        assert_eq!(points(&curves, &request("time", None)), None);
        // A series that goes back and forth leaves the points in the order of the steps.
        let warmup = BTreeMap::from([
            ("loss".to_owned(), curve(vec![1, 2, 3], vec![3.0, 2.0, 1.0])),
            ("lr".to_owned(), curve(vec![1, 2, 3], vec![0.1, 1.0, 0.5])),
        ]);
        assert_eq!(points(&warmup, &request("lr", Some(0.4))), Some(vec![(0.1, 3.0), (1.0, 2.0), (0.5, 1.0)]));
        // Jobs that report in different units have one in a chart.
        let loss = |unit, values| Curve { unit, at: vec![1, 2], values };
        let of = |unit| {
            let curves = BTreeMap::from([("loss".to_owned(), loss(unit, vec![500.0, 700.0]))]);
            super::points(&curves, &request("", None), &BTreeMap::from([("loss".to_owned(), Unit::Seconds)]))
        };
        assert_eq!(of(Unit::Milliseconds), Some(vec![(1.0, 0.5), (2.0, 0.7)]));
        assert_eq!(of(Unit::Seconds), Some(vec![(1.0, 500.0), (2.0, 700.0)]));
        assert_eq!(of(Unit::Bytes), None);
    }
}
