//! The sources of the series in a record of an earlier version, which does not name them.

use std::collections::BTreeSet;

use sweep_job::{
    Aggregates, Curve, Reported, ReportedSource,
    tasks::{Collect, Command},
};

use super::{REPORT, STDOUT, Stored, collect, groups, source_name};

/// A curve with fewer points has all of them: thinning leaves more.
const SURELY_WHOLE: usize = 1000;

/// Attributes the series of a record to the sources that its job read. A source that can be read again is not among
/// them: it is read. The series of a pattern are those of its groups. Any other series is that of a file that was not
/// kept, if there is one, because it may be; else that of the program's reports.
pub(super) fn attributed(stored: &Stored<'_>, was: &Command) -> Reported {
    let outcome = &stored.record.outcome;
    let mut open: BTreeSet<&String> = outcome.curves.keys().collect();
    let mut sources = Vec::new();
    let mut unread: Option<String> = None;
    for (kind, place) in was.sources() {
        let name = source_name(kind, place);
        let replayed = stored.replay(was, kind, place).ok().map(|(source, _)| source.reported);
        let own: Vec<String> = match (&replayed, kind) {
            (Some(source), _) => source.series.keys().cloned().collect(),
            (None, STDOUT) => groups(place),
            (None, _) => {
                unread.get_or_insert(name);
                continue;
            }
        };
        let own: Vec<&String> = own.iter().filter_map(|name| open.get(name).copied()).collect();
        open.retain(|name| !own.contains(name));
        if replayed.is_none() {
            sources.push(source(stored, was, &name, own.into_iter()));
        }
    }
    // A report takes precedence over the other sources.
    let (name, place) = unread.map_or((REPORT.to_owned(), 0), |name| (name, sources.len()));
    sources.insert(place, source(stored, was, &name, open.into_iter()));
    Reported { sources, ..Reported::default() }
}

/// These series of a record as those of a source.
fn source<'s>(
    stored: &Stored<'_>,
    was: &Command,
    name: &str,
    series: impl Iterator<Item = &'s String>,
) -> ReportedSource {
    let outcome = &stored.record.outcome;
    let how = collect(was);
    let mut source = ReportedSource::of(name);
    for name in series {
        let Some(curve) = outcome.curves.get(name) else { continue };
        let how = how.get(name).copied().unwrap_or(Collect::Last);
        let mut aggregates = aggregates(curve);
        let metric = outcome.metrics.get(name).copied();
        match (how, metric) {
            (Collect::Mean, metric) => aggregates.mean = metric.map(|metric| metric.value),
            // The newest value was not finite.
            (Collect::Last, None) => aggregates.last = None,
            (how, Some(metric)) => {
                let of_curve = aggregates.collect(how).map(|(_, value)| value.to_bits());
                if of_curve != Some(metric.value.to_bits()) {
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
    let extreme =
        |better: fn(f64, f64) -> bool| points().reduce(|best, now| if better(now.1, best.1) { now } else { best });
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
