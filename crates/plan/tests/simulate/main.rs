//! The store under a simulated disk, clock and scheduler: engines whose file operations are ordered by a seed, and that are killed,
//! stopped, cut off by full disks, I/O errors and power failures. Every schedule ends with a check of the remaining files, as by the next
//! sweep.
//!
//! `make simulate SECONDS=60` runs fresh seeds; `SWEEP_SIMULATE_SEED=N` runs the schedule of one seed again, and
//! `SWEEP_SIMULATE_TRACE=1` prints its operations. `SWEEP_SIMULATE_PLANTED=NAME` plants a bug in it.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod disk;
mod engines;
mod faults;
mod machine;
mod random;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use sweep_base::host::files::Planted;

use crate::{
    engines::{Outcome, Run, Schedule},
    faults::Kind,
    random::Random,
};

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
];

/// Bugs that need a rare order: three engines at one lock whose holder has died, or a power failure between a rename and the next sync.
const RARE: &[Planted] =
    &[Planted::LeaseWithoutHeir, Planted::LeaseOfAnother, Planted::NoIdentityOfLock, Planted::RenameBeforeSync];

/// Schedules that the search for a planted bug takes at most in a usual test run, which leaves out [`RARE`] ones, and in `make
/// simulate`: that is below ten minutes of processor time.
const MOST_SEEDS: u64 = 3000;
const MOST_SEEDS_OF_RARE: u64 = 150_000;

/// A folder in memory, where there is one.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn schedule(seed: u64, planted: Option<Planted>) -> Outcome {
    let folder = folder();
    Run::all(&Schedule::new(seed), folder.path(), planted).unwrap()
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// A number of the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Sums over schedules.
#[derive(Default)]
struct Totals {
    schedules: u64,
    operations: u64,
    /// Faults by the operations at which they happened.
    struck: BTreeMap<(&'static str, Kind), u64>,
}

/// Runs schedules from `first` on for a time.
fn search(first: u64, time: Duration) -> Totals {
    let (start, mut totals) = (Instant::now(), Totals::default());
    while start.elapsed() < time {
        let schedules = totals.schedules;
        let seed = first.wrapping_add(schedules);
        let outcome = schedule(seed, None);
        assert!(
            outcome.violations.is_empty(),
            "`SWEEP_SIMULATE_SEED={seed}` runs this again: {:#?}\n{:#?}\n{}",
            outcome.violations,
            Schedule::new(seed),
            outcome.log
        );
        totals.schedules += 1;
        totals.operations += outcome.operations;
        for struck in outcome.struck {
            *totals.struck.entry(struck).or_default() += 1;
        }
    }
    totals
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
    // Several processes that begin at once have other seeds.
    let first = Random::new(since.as_secs() ^ u64::from(since.subsec_nanos()) << 32).next() >> 16;
    println!("the first seed is {first}");
    let start = processor_time();
    let totals = search(first, Duration::from_secs(setting("SWEEP_SIMULATE_SECONDS").unwrap_or(10)));
    let seconds = (processor_time().saturating_sub(start)).as_secs_f64();
    let Totals { schedules, operations, struck } = totals;
    println!(
        "{schedules} schedules with {operations} operations in {seconds:.1} s of processor time, {:.0} in an hour of it",
        schedules as f64 / seconds * 3600.0
    );
    for ((fault, kind), count) in struck {
        println!("{fault} at {kind:?}: {count}");
    }
    assert!(schedules > 0);
}

/// Seeds that have failed before: 17773 took an engine that waits for the lock of a stopped one for an engine that never ends.
const FAILED_BEFORE: [u64; 6] =
    [17_773, 224_420_768_982_013, 116_524_059_493_052, 44_678_476_670_527, 65_843_581_764_650, 195_133_790_987_637];

#[test]
fn seeds_that_have_failed_before_violate_nothing() {
    for seed in FAILED_BEFORE {
        let violations = schedule(seed, None).violations;
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    }
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
    let is_long = std::env::var("SWEEP_SIMULATE_BUGS").is_ok_and(|bugs| bugs == "all");
    let most = if is_long { MOST_SEEDS_OF_RARE } else { MOST_SEEDS };
    let mut missed = Vec::new();
    for bug in BUGS.iter().filter(|bug| is_long || !RARE.contains(bug)) {
        let start = processor_time();
        let found = (1..=most).find_map(|seed| Some((seed, schedule(seed, Some(*bug)).violations.into_iter().next()?)));
        if let Some((seed, _)) = &found {
            assert!(schedule(*seed, None).violations.is_empty(), "seed {seed} fails without a planted bug");
        }
        let seconds = (processor_time().saturating_sub(start)).as_secs_f64();
        match found {
            Some((seed, violation)) => println!("{bug:?}: found by seed {seed} in {seconds:.1} s: {violation}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "{missed:?} are not found by {most} seeds");
}
