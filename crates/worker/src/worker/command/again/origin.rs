//! The sources of the series in a record of an earlier version, which does not name them.

use std::collections::BTreeSet;

use sweep_job::{
    Aggregates, Curve, Reported, ReportedSource,
    tasks::{Collect, Command},
};

use super::{REPORT, STDOUT, Stored, collect, groups, source_name};

/// A curve with fewer points has all of them: thinning leaves more.
const SURELY_WHOLE: usize = 1000;

/// Attributes the series of a record to the sources that its job read. Sources that can be read again are excluded,
/// because they are read. The groups of a pattern are its series. Any other series is attributed to a file that was not
/// kept, if there is one, because it may come from it; else to the program's reports.
pub(super) fn attributed(stored_job: &Stored<'_>, old_command: &Command) -> Reported {
    let outcome = &stored_job.record.outcome;
    let mut open_names: BTreeSet<&String> = outcome.curves.keys().collect();
    let mut sources = Vec::new();
    let mut unread_name: Option<String> = None;
    for (kind, place) in old_command.sources() {
        let name = source_name(kind, place);
        let replayed_source = stored_job.replay(old_command, kind, place).ok().map(|(source, _)| source.reported);
        let own_names: Vec<String> = match (&replayed_source, kind) {
            (Some(source), _) => source.series.keys().cloned().collect(),
            (None, STDOUT) => groups(place),
            (None, _) => {
                unread_name.get_or_insert(name);
                continue;
            }
        };
        let own_names: Vec<&String> = own_names.iter().filter_map(|name| open_names.get(name).copied()).collect();
        open_names.retain(|name| !own_names.contains(name));
        if replayed_source.is_none() {
            sources.push(source(stored_job, old_command, &name, own_names.into_iter()));
        }
    }
    // A report takes precedence over the other sources.
    let (name, place) = unread_name.map_or((REPORT.to_owned(), 0), |name| (name, sources.len()));
    sources.insert(place, source(stored_job, old_command, &name, open_names.into_iter()));
    Reported { sources, ..Reported::default() }
}

/// Series of a record as the series of a source.
fn source<'s>(
    stored_job: &Stored<'_>,
    old_command: &Command,
    name: &str,
    series: impl Iterator<Item = &'s String>,
) -> ReportedSource {
    let outcome = &stored_job.record.outcome;
    let modes = collect(old_command);
    let mut source = ReportedSource::of(name);
    for name in series {
        let Some(curve) = outcome.curves.get(name) else { continue };
        let mode = modes.get(name).copied().unwrap_or(Collect::Last);
        let mut aggregates = aggregates(curve);
        let metric = outcome.metrics.get(name).copied();
        match (mode, metric) {
            (Collect::Mean, metric) => aggregates.mean = metric.map(|metric| metric.value),
            // The newest value was not finite.
            (Collect::Last, None) => aggregates.last = None,
            (mode, Some(metric)) => {
                let curve_value = aggregates.collect(mode).map(|(_, value)| value.to_bits());
                if curve_value != Some(metric.value.to_bits()) {
                    source.finals.insert(name.clone(), Some(metric));
                }
            }
            (_, None) => {}
        }
        source.series.insert(name.clone(), aggregates);
    }
    source
}

/// The values of a curve that can become a metric.
fn aggregates(curve: &Curve) -> Aggregates {
    let points = || curve.at.iter().copied().zip(curve.values.iter().copied());
    let extreme = |better: fn(f64, f64) -> bool| {
        points().reduce(|best, point| if better(point.1, best.1) { point } else { best })
    };
    let is_whole = curve.values.len() < SURELY_WHOLE;
    let mean = curve.values.iter().sum::<f64>() / curve.values.len() as f64;
    Aggregates {
        unit: curve.unit,
        diverged: false,
        since: None,
        last: points().next_back(),
        first: points().next(),
        min: extreme(|a, b| a < b),
        max: extreme(|a, b| a > b),
        mean: Some(mean).filter(|mean| is_whole && mean.is_finite()),
    }
}
