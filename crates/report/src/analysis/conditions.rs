//! Comparability of times and rates: measurements are compared only if they were taken under like conditions.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::{clean, count},
    store::{Measured, Under, overlapping, turns},
};

/// Names that a sentence lists at most.
const MAX_NAMES: usize = 3;

/// Conditions of measurements of a time or a rate that are to be compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparable {
    /// Reason why the comparison decides nothing; `None` if it may.
    pub reason: Option<String>,
    /// Remarks on the comparison.
    pub notes: Vec<String>,
}

/// Compares the conditions of the sides of a comparison of times or rates. One side is a statement about a value alone.
pub fn comparable(sides: &[&[&Measured]]) -> Comparable {
    let all: Vec<&Measured> = sides.iter().flat_map(|side| side.iter().copied()).collect();
    let conditions: Vec<&Under> = all.iter().filter_map(|one| one.under.as_deref()).collect();
    let unrecorded = all.iter().filter(|one| one.under.is_none() && one.remarks.imported.is_none()).count();
    let imported = imported(&all);
    let reasons = [
        imported.clone().filter(|_| sides.len() > 1),
        several("host", all.iter().map(|one| one.host.as_str())),
        several("device", all.iter().filter_map(|one| one.device.as_deref())),
        several("driver", conditions.iter().filter_map(|under| under.driver.as_deref())),
        threads(&conditions),
        exclusivity(&conditions),
        load(&conditions),
        interleaving(sides),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    let notes = [
        imported.filter(|_| sides.len() == 1),
        attempts(&conditions),
        neighbors(&conditions),
        undetermined(&conditions),
        (unrecorded > 0).then(|| {
            format!(
                "the conditions of {unrecorded} of {} were not recorded (earlier version)",
                count(all.len(), "record")
            )
        }),
    ];
    Comparable {
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        notes: notes.into_iter().flatten().collect(),
    }
}

/// Nothing is known about the machine of imported runs and about its load, nor whether they took turns.
fn imported(all: &[&Measured]) -> Option<String> {
    let imported = all.iter().filter(|one| one.remarks.imported.is_some()).count();
    (imported > 0)
        .then(|| format!("the machine, the load and the order of {} are unknown", count(imported, "imported run")))
}

/// `measured on 2 hosts (a, b)`, if there are several.
fn several<'m>(what: &str, values: impl Iterator<Item = &'m str>) -> Option<String> {
    let values: BTreeSet<&str> = values.collect();
    (values.len() > 1).then(|| format!("measured on {} ({})", count(values.len(), what), names(values.iter().copied())))
}

fn threads(conditions: &[&Under]) -> Option<String> {
    let numbers: BTreeSet<usize> = conditions.iter().map(|under| under.threads).collect();
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    (numbers.len() > 1).then(|| format!("measured with different numbers of threads ({})", numbers.join(", ")))
}

fn exclusivity(conditions: &[&Under]) -> Option<String> {
    let exclusive_jobs = conditions.iter().filter(|under| under.exclusive.held).count();
    (exclusive_jobs > 0 && exclusive_jobs < conditions.len()).then(|| {
        format!("{exclusive_jobs} of {} ran alone on the machine, the others did not", count(conditions.len(), "job"))
    })
}

/// The job with the largest foreign load beyond its limit, or on a machine without a free core.
fn load(conditions: &[&Under]) -> Option<String> {
    let disturbed_jobs: Vec<&Under> = conditions.iter().filter(|under| under.is_disturbed()).copied().collect();
    let order = |one: &&&Under, other: &&&Under| {
        let [one_load, other_load] = [one, other].map(|under| under.foreign.unwrap_or_default());
        one_load.total_cmp(&other_load).then_with(|| other.label.cmp(&one.label))
    };
    let worst = disturbed_jobs.iter().max_by(order)?;
    let foreign = worst.foreign.unwrap_or_default();
    let of = worst.cores.map_or_else(String::new, |cores| format!(" of {cores}"));
    let limit = worst.limit();
    let because = if foreign > limit {
        format!("limit {}", short(limit))
    } else {
        format!("the job itself {}, and no core was free", short(worst.own.unwrap_or_default()))
    };
    let more = if disturbed_jobs.len() > 1 {
        format!(", and too many during {}", count(disturbed_jobs.len() - 1, "other job"))
    } else {
        String::new()
    };
    let label = clean(&worst.label);
    let message = format!("other processes kept {}{of} cores busy while {label} ran ({because}){more}", short(foreign));
    Some(format!("{message}: `sweep run --remeasure` takes the times again"))
}

/// Reason why sides were not measured in turns: every side has a measurement in each round, and no round began before the
/// one before it had begun on all sides.
fn interleaving(sides: &[&[&Measured]]) -> Option<String> {
    let by_side: Vec<Vec<(&Measured, &Under)>> =
        sides.iter().map(|side| side.iter().filter_map(|one| Some((*one, one.under.as_deref()?))).collect()).collect();
    if by_side.iter().filter(|side| !side.is_empty()).count() < 2 {
        return None;
    }
    let all: Vec<(&Measured, &Under)> = by_side.iter().flatten().copied().collect();
    // The turns of records of earlier versions are unknown.
    let is_known = by_side.iter().map(Vec::len).eq(sides.iter().map(|side| side.len()));
    let first = turns(by_side.first()?);
    let in_rounds = turns(&all).iter().all(|(_, round)| round.is_some());
    let same = !is_known || by_side.iter().all(|side| turns(side) == first);
    if in_rounds && same && overlapping(&all).is_empty() {
        return None;
    }
    let runs: BTreeSet<&str> = all.iter().filter_map(|(_, under)| under.run.as_deref()).collect();
    let days: BTreeSet<String> = all.iter().map(|(one, _)| one.started.strftime("%Y-%m-%d").to_string()).collect();
    let steps: BTreeSet<&str> = all.iter().filter_map(|(_, under)| under.label.split('/').next()).collect();
    let mut places = Vec::new();
    if runs.len() > 1 {
        places.push(format!("in {} ({})", count(runs.len(), "run"), names(runs.iter().copied())));
    }
    if let (true, Some(first), Some(last)) = (days.len() > 1, days.first(), days.last()) {
        places.push(format!("on {} ({first} to {last})", count(days.len(), "day")));
    }
    if steps.len() > 1 {
        places.push(format!("by {} ({})", count(steps.len(), "step"), names(steps.iter().copied())));
    }
    let places = if places.is_empty() { String::new() } else { format!(", but {}", places.join(" ")) };
    let remedy = if steps.len() > 1 {
        "values of one axis of a step take turns"
    } else {
        "`sweep run --remeasure` takes the times again in turns"
    };
    Some(format!("the sides were not measured in turns{places}: {remedy}"))
}

fn attempts(conditions: &[&Under]) -> Option<String> {
    let attempts: BTreeMap<&str, u32> = conditions
        .iter()
        .filter(|under| under.attempts > 1)
        .map(|under| (under.label.as_str(), under.attempts))
        .collect();
    let max_attempts = attempts.values().max()?;
    Some(format!("measured after failed attempts (up to {max_attempts} attempts): {}", names(attempts.keys().copied())))
}

fn neighbors(conditions: &[&Under]) -> Option<String> {
    let max_neighbors = conditions.iter().map(|under| under.neighbors).max().filter(|most| *most > 0)?;
    Some(format!("up to {} of the same run ran at the same time", count(max_neighbors, "other job")))
}

fn undetermined(conditions: &[&Under]) -> Option<String> {
    let unknown = conditions.iter().filter(|under| under.foreign.is_none()).count();
    (unknown > 0).then(|| {
        let jobs = count(conditions.len(), "job");
        format!("the load by other processes is unknown for {unknown} of {jobs}: too short, or not shown by the system")
    })
}

/// The first names of a list, and the number of the others.
pub(super) fn names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.map(clean).collect();
    let text = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if names.len() > MAX_NAMES { format!("{text} and {} more", names.len() - MAX_NAMES) } else { text }
}

/// A number of cores: `1.3`, `0.25`.
fn short(cores: f64) -> String {
    let text = if cores < 1.0 { format!("{cores:.2}") } else { format!("{cores:.1}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sweep_job::Metrics;

    use super::*;
    use crate::record::{Exclusivity, Remarks};

    fn measured(seed: usize, change: impl FnOnce(&mut Measured, &mut Under)) -> Measured {
        let mut under = Under {
            label: format!("train/a=1,seed={seed}"),
            threads: 2,
            driver: None,
            exclusive: Exclusivity { asked: true, held: true },
            cores: Some(2),
            own: Some(1.0),
            foreign: Some(0.02),
            neighbors: 0,
            attempts: 1,
            gpu: None,
            run: Some("r1".into()),
            round: Some(seed),
            seeds: None,
            environment: None,
        };
        let mut measured = Measured {
            key: "0".repeat(64).parse().unwrap(),
            metrics: Metrics::default(),
            started: jiff::Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            backend: None,
            device: None,
            host: "a".to_owned(),
            sweep: "0.0.0".to_owned(),
            origin: None,
            adopted: None,
            under: None,
            remarks: Remarks::default(),
        };
        change(&mut measured, &mut under);
        if measured.sweep != "old" {
            measured.under = Some(Box::new(under));
        }
        measured
    }

    fn same(seed: usize) -> Measured {
        measured(seed, |_, _| {})
    }

    /// The result for two sides, of which the second is changed.
    fn against(change: impl Fn(&mut Measured, &mut Under)) -> Comparable {
        let (first, second) = ([same(0), same(1)], [same(0), measured(1, &change)]);
        let sides = [first.iter().collect::<Vec<_>>(), second.iter().collect()];
        let forward = comparable(&[&sides[0], &sides[1]]);
        assert_eq!(forward, comparable(&[&sides[1], &sides[0]]), "the order of the sides does not matter");
        forward
    }

    fn reason(change: impl Fn(&mut Measured, &mut Under)) -> String {
        against(change).reason.unwrap_or_default()
    }

    fn note(change: impl Fn(&mut Measured, &mut Under)) -> String {
        let Comparable { reason, notes } = against(change);
        assert_eq!(reason, None);
        notes.join(" | ")
    }

    #[test]
    fn like_conditions_are_compared_without_a_remark() {
        assert_eq!(against(|_, _| {}), Comparable::default());
        assert_eq!(comparable(&[]), Comparable::default());
        assert_eq!(comparable(&[&[&same(0)]]), Comparable::default());
    }

    #[test]
    fn sides_that_differ_decide_nothing() {
        assert_eq!(reason(|measured, _| measured.host = "b\u{1b}".into()), "measured on 2 hosts (a, b\\u{1b})");
        let device = |measured: &mut Measured, name: &str| measured.device = Some(name.to_owned());
        assert_eq!(reason(|measured, _| device(measured, "A100")), "", "a job without a device says nothing about it");
        let sides = ["A100", "H100"].map(|name| measured(0, |measured, _| device(measured, name)));
        let comparison = comparable(&[&[&sides[0]], &[&sides[1]]]);
        assert_eq!(comparison.reason.as_deref(), Some("measured on 2 devices (A100, H100)"));
        let sides = ["550", "560"].map(|version| measured(0, |_, under| under.driver = Some(version.to_owned())));
        let comparison = comparable(&[&[&sides[0]], &[&sides[1]]]);
        assert_eq!(comparison.reason.as_deref(), Some("measured on 2 drivers (550, 560)"));
        assert_eq!(reason(|_, under| under.threads = 4), "measured with different numbers of threads (2, 4)");
        assert_eq!(
            reason(|_, under| under.exclusive.held = false),
            "3 of 4 jobs ran alone on the machine, the others did not"
        );
    }

    #[test]
    fn foreign_load_decides_nothing_beyond_its_limit() {
        assert_eq!(
            reason(|_, under| under.foreign = Some(1.3)),
            "other processes kept 1.3 of 2 cores busy while train/a=1,seed=1 ran (limit 0.25): `sweep run --remeasure` takes the \
             times again"
        );
        assert_eq!(reason(|_, under| under.foreign = Some(0.25)), "", "at the limit");
        let on = |cores, own, foreign| {
            reason(move |_, under| {
                (under.cores, under.own, under.foreign) = (Some(cores), Some(own), Some(foreign));
            })
        };
        assert_eq!(on(64, 8.0, 6.0), "", "a tenth of a large machine is tolerated");
        assert!(on(64, 8.0, 6.5).contains("kept 6.5 of 64 cores busy while train/a=1,seed=1 ran (limit 6.4): "));
        assert!(on(64, 60.0, 3.0).contains("ran (the job itself 60, and no core was free): "));
        assert_eq!(on(2, 1.95, 0.05), "", "a job that uses the whole machine");
        let loaded = |seed, foreign| measured(seed, |_, under| under.foreign = Some(foreign));
        let (first, second) = ([loaded(0, 0.5), loaded(1, 1.5)], [loaded(0, 1.5), same(1)]);
        let comparison = comparable(&[&first.iter().collect::<Vec<_>>(), &second.iter().collect::<Vec<_>>()]);
        let expected = "other processes kept 1.5 of 2 cores busy while train/a=1,seed=0 ran (limit 0.25), and too many during 2 \
                        other jobs: ";
        assert!(comparison.reason.as_deref().is_some_and(|reason| reason.starts_with(expected)), "{comparison:?}");
    }

    #[test]
    fn all_reasons_are_given_in_one_order() {
        let text = reason(|measured, under| {
            measured.host = "b".into();
            under.threads = 4;
            under.foreign = Some(2.0);
        });
        let parts: Vec<&str> = text.split("; ").collect();
        assert_eq!(parts.len(), 3, "{text}");
        assert!(parts[0].contains("hosts") && parts[1].contains("threads") && parts[2].contains("cores"), "{text}");
    }

    #[test]
    fn sides_that_took_no_turns_decide_nothing() {
        let hint = ": `sweep run --remeasure` takes the times again in turns";
        assert_eq!(reason(|_, under| under.round = Some(7)), format!("the sides were not measured in turns{hint}"));
        assert_eq!(
            reason(|_, under| under.run = Some("r2".into())),
            format!("the sides were not measured in turns, but in 2 runs (r1, r2){hint}")
        );
        let later = |measured: &mut Measured, under: &mut Under| {
            measured.started = "2026-01-02T00:00:00Z".parse().unwrap();
            under.run = Some("r2".into());
        };
        assert_eq!(
            reason(later),
            format!(
                "the sides were not measured in turns, but in 2 runs (r1, r2) on 2 days (1970-01-01 to 2026-01-02){hint}"
            )
        );
        // The same rounds of the same two runs: in turns, although not at once.
        let sides = [(); 2].map(|()| [same(0), measured(1, later)]);
        let [first, second] = sides.each_ref().map(|side| side.iter().collect::<Vec<_>>());
        assert_eq!(comparable(&[&first, &second]), Comparable::default());
        let sides = [(); 2].map(|()| measured(0, |_, under| under.round = None));
        let comparison = comparable(&[&[&sides[0]], &[&sides[1]]]);
        assert_eq!(comparison.reason, Some(format!("the sides were not measured in turns{hint}")));
    }

    /// Measurements of a step at these seconds, one in each round.
    fn at(step: &str, seconds: [i64; 3]) -> Vec<Measured> {
        let one = |(seed, second): (usize, i64)| {
            measured(seed, |measured, under| {
                measured.started = Timestamp::from_second(second).unwrap();
                under.label = format!("{step}/seed={seed}");
            })
        };
        seconds.into_iter().enumerate().map(one).collect()
    }

    #[test]
    fn steps_one_after_the_other_took_no_turns() {
        let turns = |one: &[Measured], other: &[Measured]| {
            let [one, other] = [one, other].map(|side| side.iter().collect::<Vec<_>>());
            comparable(&[&one, &other]).reason
        };
        assert_eq!(turns(&at("a", [0, 20, 40]), &at("a", [10, 30, 50])), None);
        assert_eq!(turns(&at("a", [0, 30, 40]), &at("a", [10, 20, 50])), None, "in a drawn order");
        let steps =
            "the sides were not measured in turns, but by 2 steps (a, b): values of one axis of a step take turns";
        assert_eq!(turns(&at("a", [0, 10, 20]), &at("b", [30, 40, 50])).as_deref(), Some(steps));
        assert_eq!(turns(&at("b", [30, 40, 50]), &at("a", [0, 10, 20])).as_deref(), Some(steps));
        assert_eq!(turns(&at("a", [0, 20, 40]), &at("b", [10, 30, 50])), None, "two steps that took turns");
    }

    #[test]
    fn attempts_neighbors_and_what_is_unknown_are_remarks() {
        assert_eq!(
            note(|_, under| under.attempts = 3),
            "measured after failed attempts (up to 3 attempts): train/a=1,seed=1"
        );
        assert_eq!(note(|_, under| under.neighbors = 2), "up to 2 other jobs of the same run ran at the same time");
        let unknown = "the load by other processes is unknown for 1 of 4 jobs: too short, or not shown by the system";
        assert_eq!(note(|_, under| under.foreign = None), unknown);
        assert_eq!(
            note(|measured, _| measured.sweep = "old".into()),
            "the conditions of 1 of 4 records were not recorded (earlier version)"
        );
        let old = [(); 2].map(|()| measured(0, |measured, _| measured.sweep = "old".into()));
        let comparison = comparable(&[&[&old[0]], &[&old[1]]]);
        assert_eq!(comparison.notes, ["the conditions of 2 of 2 records were not recorded (earlier version)"]);
    }
}
