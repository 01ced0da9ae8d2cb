//! Footnotes about records that were made on other machines.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::{clean, count},
    plan::JobId,
    store::{Measured, Origin},
};

/// One line for each origin of these jobs' records: `2 of 3 records from REMOTE, pulled on DAY, not signed`.
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
        let on = if days[0] == days[1] { days[0].clone() } else { days.join(" to ") };
        let signed = signed.map_or("not signed".to_owned(), |key| format!("signed by {}", clean(key)));
        let all = count(jobs.len(), "record");
        format!("{} of {all} from {}, pulled on {on}, {signed}", origins.len(), clean(from))
    };
    places.into_iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use sweep_job::Metrics;

    use super::*;
    use crate::record::Remarks;

    #[test]
    fn places_are_counted_apart_and_days_are_a_range() {
        let origin = |from: &str, at: &str, signed: Option<&str>| {
            let signed = signed.map(str::to_owned);
            Some(Origin { from: from.to_owned(), at: at.parse().unwrap(), signed })
        };
        let measured = |origin: Option<Origin>| Measured {
            key: "0".repeat(64).parse().unwrap(),
            metrics: Metrics::default(),
            started: jiff::Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            backend: None,
            device: None,
            host: "here".to_owned(),
            sweep: "0.0.0".to_owned(),
            origin,
            adopted: None,
            under: None,
            remarks: Remarks::default(),
        };
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
}
