//! The store under a simulated disk, clock and scheduler: engines whose file operations are ordered by a seed, and that are
//! killed, stopped, cut off by full disks, I/O errors and power failures. Every schedule ends with a look at what is left, as the next
//! sweep has it.
//!
//! `make simulate SECONDS=60` runs fresh seeds; `SWEEP_SIMULATE_SEED=N` runs the schedule of one seed again, and
//! `SWEEP_SIMULATE_TRACE=1` prints its operations. `SWEEP_SIMULATE_PLANTED=NAME` plants a bug in it.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod disk;
mod engines;
mod machine;
mod random;

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use sweep_base::host::files::Planted;

use crate::engines::{Outcome, Run, Schedule};

/// All bugs that can be planted.
const BUGS: &[Planted] = &[
    Planted::RecordNotSynced,
    Planted::FilesNotSynced,
    Planted::StagingNotSynced,
    Planted::ShardNotSynced,
    Planted::StoreNotSynced,
    Planted::ResultsNotSynced,
    Planted::ProjectNotSynced,
    Planted::SetNotSynced,
    Planted::SetFolderNotSynced,
    Planted::LineNotSynced,
    Planted::RenameBeforeSync,
    Planted::FilledInPlace,
    Planted::ErrorIgnored,
    Planted::NoLookUnderLock,
    Planted::DoubleCommit,
    Planted::LeaseWithoutHeir,
    Planted::LeaseOfAnother,
    Planted::OwnClock,
    Planted::ClockBack,
    Planted::NoRenewal,
    Planted::EternalLease,
    Planted::NameAfterLock,
    Planted::NoIdentityOfLock,
    Planted::TornLineStays,
    Planted::SharedStaging,
    Planted::RemovalInUse,
    Planted::LeasesCleared,
    Planted::RemoverByOwnClock,
];

/// The bugs that the search is known to find; the others can be planted in a schedule by hand.
const FOUND: &[Planted] = &[
    Planted::RecordNotSynced,
    Planted::FilesNotSynced,
    Planted::StagingNotSynced,
    Planted::ShardNotSynced,
    Planted::StoreNotSynced,
    Planted::ResultsNotSynced,
    Planted::ProjectNotSynced,
    Planted::SetNotSynced,
    Planted::LineNotSynced,
];

/// Schedules after which a planted bug must have been found.
const MOST_SEEDS: u64 = 200;

/// A folder in memory, where there is one.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn schedule(seed: u64, planted: Option<Planted>) -> Outcome {
    let folder = folder();
    Run::all(&Schedule::new(seed), folder.path(), planted).unwrap()
}

/// A number of the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs schedules from `first` on for a time; the number of schedules and of operations.
fn search(first: u64, time: Duration) -> (u64, u64) {
    let (start, mut schedules, mut operations) = (Instant::now(), 0, 0);
    while start.elapsed() < time {
        let seed = first.wrapping_add(schedules);
        let outcome = schedule(seed, None);
        assert!(
            outcome.violations.is_empty(),
            "`SWEEP_SIMULATE_SEED={seed}` runs this again: {:#?}\n{:#?}\n{}",
            outcome.violations,
            Schedule::new(seed),
            outcome.log
        );
        schedules += 1;
        operations += outcome.operations;
    }
    (schedules, operations)
}

#[test]
fn no_schedule_of_fresh_seeds_violates_an_invariant() {
    if let Some(seed) = setting("SWEEP_SIMULATE_SEED") {
        let planted = std::env::var("SWEEP_SIMULATE_PLANTED").ok();
        let planted = BUGS.iter().copied().find(|bug| Some(format!("{bug:?}")) == planted);
        let outcome = schedule(seed, planted);
        println!("{}{:#?}", outcome.log, Schedule::new(seed));
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        return;
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let first = u64::try_from(since.as_micros()).unwrap() << 16 >> 16;
    println!("the first seed is {first}");
    let start = Instant::now();
    let (schedules, operations) = search(first, Duration::from_secs(setting("SWEEP_SIMULATE_SECONDS").unwrap_or(10)));
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{schedules} schedules with {operations} operations in {seconds:.1} s, {:.0} in an hour",
        schedules as f64 / seconds * 3600.0
    );
    assert!(schedules > 0);
}

#[test]
fn a_seed_replays_its_schedule() {
    for seed in 0..20 {
        let (first, second) = (schedule(seed, None), schedule(seed, None));
        assert_eq!((first.trace, first.operations), (second.trace, second.operations), "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    let mut missed = Vec::new();
    for bug in FOUND {
        let found =
            (1..=MOST_SEEDS).find_map(|seed| Some((seed, schedule(seed, Some(*bug)).violations.into_iter().next()?)));
        match found {
            Some((seeds, violation)) => println!("{bug:?}: found by seed {seeds}: {violation}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "{missed:?} are not found by {MOST_SEEDS} seeds");
}
