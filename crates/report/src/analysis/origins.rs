//! Footnotes about records from other machines or other programs.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::{clean, count},
    plan::JobId,
    store::{Measured, Origin},
};

/// One line for each origin of these jobs' records: `2 of 3 records from REMOTE, pulled on DAY, not signed`, and one for each program
/// that records were imported from.
pub(crate) fn notes(jobs: impl Iterator<Item = JobId>, measured: &BTreeMap<JobId, Measured>) -> Vec<String> {
    let jobs: BTreeSet<JobId> = jobs.filter(|job| measured.contains_key(job)).collect();
    let mut places: BTreeMap<(&str, Option<&str>), Vec<&Origin>> = BTreeMap::new();
    for origin in jobs.iter().filter_map(|job| measured.get(job)?.origin.as_ref()) {
        places.entry((&origin.from, origin.signed.as_deref())).or_default().push(origin);
    }
    let note = |((from, signed), mut origins): ((&str, Option<&str>), Vec<&Origin>)| {
        origins.sort_unstable_by_key(|origin| origin.at);
        let days =
            [origins.first(), origins.last()].map(|origin| origin.map(|origin| origin.day()).unwrap_or_default());
        let dates = if days[0] == days[1] { days[0].clone() } else { days.join(" to ") };
        let signed = signed.map_or("not signed".to_owned(), |key| format!("signed by {}", clean(key)));
        let all = count(jobs.len(), "record");
        format!("{} of {all} from {}, pulled on {dates}, {signed}", origins.len(), clean(from))
    };
    let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
    for source in jobs.iter().filter_map(|job| measured.get(job)?.remarks.imported.as_deref()) {
        *sources.entry(source).or_default() += 1;
    }
    let imported = |(source, records): (&str, usize)| {
        format!(
            "{records} of {} imported from {}; `sweep` did not run them",
            count(jobs.len(), "record"),
            clean(source)
        )
    };
    let imported: Vec<String> = sources.into_iter().map(imported).collect();
    places.into_iter().map(note).chain(imported).collect()
}

#[cfg(test)]
mod tests {
    use sweep_job::Metrics;

    use super::*;
    use crate::record::Remarks;

    fn measured() -> Measured {
        Measured {
            key: "0".repeat(64).parse().unwrap(),
            metrics: Metrics::default(),
            started: jiff::Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            backend: None,
            device: None,
            host: "here".to_owned(),
            sweep: "0.0.0".to_owned(),
            origin: None,
            adopted: None,
            under: None,
            remarks: Remarks::default(),
        }
    }

    #[test]
    fn places_are_counted_apart_and_days_are_a_range() {
        let origin = |from: &str, at: &str, signed: Option<&str>| {
            let signed = signed.map(str::to_owned);
            Some(Origin { from: from.to_owned(), at: at.parse().unwrap(), signed })
        };
        let measured = |origin: Option<Origin>| Measured { origin, ..measured() };
        let all = [
            None,
            origin("s3://a", "2026-01-03T10:00:00Z", None),
            origin("s3://a", "2026-01-01T10:00:00Z", None),
            origin("s3://a", "2026-01-02T10:00:00Z", Some("ed25519:x")),
        ];
        let all: BTreeMap<JobId, Measured> =
            all.into_iter().enumerate().map(|(index, origin)| (JobId::new(index), measured(origin))).collect();
        // A job that is not done has no record, and a job that occurs twice counts once.
        let jobs = [0, 1, 1, 2, 3, 9].map(JobId::new);
        assert_eq!(
            notes(jobs.into_iter(), &all),
            [
                "2 of 4 records from s3://a, pulled on 2026-01-01 to 2026-01-03, not signed",
                "1 of 4 records from s3://a, pulled on 2026-01-02, signed by ed25519:x",
            ]
        );
        assert_eq!(notes([JobId::new(0)].into_iter(), &all), [""; 0]);
    }

    #[test]
    fn imported_records_are_counted_by_their_source_also_after_a_transfer() {
        let of = |source: Option<&str>, origin: Option<Origin>| Measured {
            origin,
            remarks: Remarks { imported: source.map(str::to_owned), ..Remarks::default() },
            ..measured()
        };
        let pulled = Origin { from: "an archive".into(), at: "2026-01-01T10:00:00Z".parse().unwrap(), signed: None };
        let all = [of(None, None), of(Some("MLflow, `mlruns`"), None), of(Some("MLflow, `mlruns`"), Some(pulled))];
        let all: BTreeMap<JobId, Measured> =
            all.into_iter().enumerate().map(|(index, one)| (JobId::new(index), one)).collect();
        assert_eq!(
            notes([0, 1, 2].map(JobId::new).into_iter(), &all),
            [
                "1 of 3 records from an archive, pulled on 2026-01-01, not signed",
                "2 of 3 records imported from MLflow, `mlruns`; `sweep` did not run them",
            ]
        );
    }
}
