//! Engines that run jobs over one store, and the invariants of their results.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    error::Error,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use sweep_base::{
    host::files::{self as fs, Entered, Planted},
    record::{Identity, Key, Needed, ReadFile, ReadSet, Record, sample},
};
use sweep_job::{Task, Tool, Unit, Value, Values};
use sweep_plan::store::{Claim, GcError, Pending, Store};

use crate::{
    faults::{Fault, Kind, Moment},
    machine::{Machine, Seat},
    random::Random,
};

/// A schedule, which a seed names.
#[derive(Debug)]
pub(crate) struct Schedule {
    seed: u64,
    is_shared: bool,
    hosts: Vec<usize>,
    jobs: Vec<Record>,
    faults: Vec<(Moment, Fault)>,
    /// Time after which each engine begins.
    delays: Vec<Duration>,
    /// One in this many attempts of a job fails.
    failures: usize,
    /// The last engine removes garbage instead of running jobs.
    cleans: bool,
    /// It removes the records, too.
    removes: bool,
}

/// Facts about the results, from outside the store.
#[derive(Debug, Default)]
struct Results {
    /// Jobs that an engine was told to be done, with the number of the run that made the result.
    done: HashMap<Key, u64>,
    /// Results that an engine has found.
    seen: HashMap<Key, u64>,
    /// Records that are being removed.
    removing: HashSet<Key>,
    /// Engines that hold a claim and have not given it back.
    claims: Vec<(Key, usize)>,
    /// Engines that have ever held a claim.
    holders: Vec<(Key, usize)>,
    /// Claims that another engine got at the same time, while the holder was about to commit.
    overlapped: Vec<(Key, usize)>,
    runs: u64,
}

/// A job with its own key; the record has everything but the result.
fn job(number: i64) -> Record {
    let mut record = sample();
    let Some(task) = Task::info("mock") else { return record };
    let mut values = Values::new();
    values.insert("seed", Value::Int(number));
    let params = task.complete(values);
    record.identity = Identity::new(task, &params, None, BTreeMap::new(), Needed::default());
    record.params = params;
    record.key = record.identity.key().unwrap_or(record.key);
    record
}

/// The files that a job's program read: some jobs read the same.
fn set(record: &Record) -> ReadSet {
    let group = record.key.first() % 2;
    let file = ReadFile { digest: format!("{group:064x}"), by: None };
    ReadSet::new(BTreeMap::from([(format!("module-{group}.py"), file)]), BTreeMap::new())
}

fn content(key: Key, run: u64) -> String {
    format!("output of {key} by run {run}\n").repeat(3)
}

impl Schedule {
    /// The schedule of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let is_shared = random.below(3) > 0;
        // Several engines that wait for one job, whose holder is killed.
        let is_crowd = random.once_in(6);
        let engines = if is_crowd { 4 } else { 2 + random.below(3) };
        let hosts = (0..engines).map(|_| if is_shared { random.below(2) } else { 0 }).collect();
        let first = i64::try_from(random.below(50)).unwrap_or(0);
        let jobs = if is_crowd { 1 } else { 1 + random.below(3) };
        let jobs = (0..jobs).map(|number| job(first + i64::try_from(number).unwrap_or(0))).collect();
        let mut faults: Vec<_> = (0..random.below(4)).map(|_| Self::fault(&mut random, is_shared)).collect();
        // Engines that begin at once, or when others end or remove garbage.
        let delays = if is_crowd { 1 } else { [1, 1, 4, 20][random.below(4)] };
        let delays = (0..engines).map(|_| Duration::from_secs(20 * (random.next() % delays))).collect();
        if is_crowd {
            faults.insert(0, (Moment { kind: None, number: 50 + random.next() % 150 }, Fault::Kill));
        }
        Self {
            seed,
            is_shared,
            hosts,
            jobs,
            faults,
            delays,
            failures: [1_000_000, 6][random.below(2)],
            cleans: !is_crowd && random.once_in(3),
            removes: random.once_in(2),
        }
    }

    fn fault(random: &mut Random, is_shared: bool) -> (Moment, Fault) {
        const KINDS: [Kind; 5] = [Kind::Write, Kind::Sync, Kind::Rename, Kind::Link, Kind::Remove];
        let at = if random.once_in(2) {
            Moment { kind: None, number: 1 + random.next() % [60, 200, 500][random.below(3)] }
        } else {
            // There are fewer of a kind.
            Moment {
                kind: Some(KINDS[random.below(KINDS.len())]),
                number: 1 + random.next() % [8, 25, 60][random.below(3)],
            }
        };
        let fault = match random.below(if is_shared { 9 } else { 5 }) {
            0 => Fault::Kill,
            1 => Fault::Error,
            2 => Fault::Full(1 + random.next() % 40),
            3 | 4 => Fault::PowerFailure,
            5 | 6 => Fault::Silence(Duration::from_secs(200)),
            7 => Fault::Repeated,
            _ => Fault::ClockBack(Duration::from_secs(500)),
        };
        (at, fault)
    }
}

/// The run of a schedule, in an empty folder.
pub(crate) struct Run<'s> {
    schedule: &'s Schedule,
    results: Mutex<Results>,
}

type Failure = Box<dyn Error>;

/// Outcome of a schedule.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) operations: u64,
    pub(crate) struck: Vec<(&'static str, Kind)>,
    pub(crate) trace: u64,
    pub(crate) log: String,
}

impl<'s> Run<'s> {
    /// Runs a schedule, simulates a power failure, and checks the remaining files. `folder` must be empty.
    pub(crate) fn all(schedule: &'s Schedule, folder: &Path, planted: Option<Planted>) -> std::io::Result<Outcome> {
        let run = Self { schedule, results: Mutex::default() };
        let root = folder.join("before");
        fs_err::create_dir(&root)?;
        let mut hosts = schedule.hosts.clone();
        let machine = Machine::new(&root, schedule.seed, &hosts, schedule.faults.clone(), planted, schedule.is_shared);
        let machine = Arc::new(machine);
        machine.advance(&mut machine.state(), Duration::from_secs(10_000));
        run.engines(&machine);
        let mut state = machine.state();
        let mut root = root;
        let mut random = state.random.clone();
        let has_failed = state.has_failed || random.once_in(2);
        if has_failed && state.violations.is_empty() {
            root = folder.join("after");
            fs_err::create_dir(&root)?;
            state.disk.fail(&root, &mut random)?;
        }
        let mut outcome = Outcome {
            violations: std::mem::take(&mut state.violations),
            operations: state.operations,
            struck: std::mem::take(&mut state.struck),
            trace: state.trace,
            log: state.log().to_owned(),
        };
        drop(state);
        if !outcome.violations.is_empty() {
            return Ok(outcome);
        }
        // The engine that looks after the others runs on another machine.
        hosts = vec![50];
        let later = Arc::new(Machine::new(&root, schedule.seed, &hosts, Vec::new(), planted, schedule.is_shared));
        later.advance(&mut later.state(), machine.elapsed());
        run.results().seen.clear();
        run.results().claims.clear();
        run.results().holders.clear();
        let seat = Arc::new(Seat { machine: Arc::clone(&later), engine: 0 });
        let entered = Entered::new(seat);
        if let Err(error) = run.recover(&later) {
            later.violation(format!("after the end: {error}"));
        }
        drop(entered);
        let state = later.state();
        outcome.violations.extend(state.violations.iter().map(|text| format!("after the end: {text}")));
        outcome.log.push_str(state.log());
        outcome.trace ^= state.trace;
        Ok(outcome)
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engines(&self, machine: &Arc<Machine>) {
        thread::scope(|scope| {
            for engine in 0..self.schedule.hosts.len() {
                let machine = Arc::clone(machine);
                scope.spawn(move || {
                    machine.begin(engine);
                    let entered = Entered::new(Arc::new(Seat { machine: Arc::clone(&machine), engine }));
                    fs::pause(self.schedule.delays[engine]);
                    let cleans = self.schedule.cleans && engine + 1 == self.schedule.hosts.len();
                    let result = if cleans { self.clean(&machine) } else { self.run(&machine, engine) };
                    drop(entered);
                    if let Err(error) = result
                        && !machine.may_fail(engine)
                    {
                        machine.violation(format!("engine {engine} failed without a fault: {error}"));
                    }
                    machine.end(engine);
                });
            }
        });
    }

    fn open(&self, machine: &Machine) -> Result<Store, Failure> {
        let store = Store::open(&machine.root.join("results"))?;
        store.create()?;
        while self.schedule.is_shared && !store.share()? {
            fs::pause(Duration::from_millis(50));
        }
        Ok(store)
    }

    /// Removes garbage a few times.
    fn clean(&self, machine: &Machine) -> Result<(), Failure> {
        let store = self.open(machine)?;
        let mut wanted: HashSet<Key> = self.schedule.jobs.iter().map(|job| job.key).collect();
        if self.schedule.removes {
            wanted.clear();
        }
        for _ in 0..if self.schedule.removes { 8 } else { 3 } {
            let garbage = store.garbage(&wanted)?;
            // From the first operation of the removal on, a record may be gone.
            let forgotten = self.forget(garbage.records.iter().map(|(key, _)| *key));
            let removed = store.remove(&garbage);
            self.results().removing.clear();
            match removed {
                Ok(()) => {}
                Err(GcError::InUse) => self.remember(forgotten),
                Err(error) => return Err(error.into()),
            }
            fs::pause(Duration::from_secs(40));
        }
        Ok(())
    }

    /// Lets the results of these jobs be none anymore, and returns them.
    fn forget(&self, keys: impl Iterator<Item = Key>) -> Vec<(Key, u64)> {
        let mut results = self.results();
        keys.filter_map(|key| {
            results.removing.insert(key);
            results.seen.remove(&key);
            Some((key, results.done.remove(&key)?))
        })
        .collect()
    }

    fn remember(&self, forgotten: Vec<(Key, u64)>) {
        let mut results = self.results();
        for (key, run) in forgotten {
            results.done.entry(key).or_insert(run);
        }
    }

    /// Runs all jobs to their end.
    fn run(&self, machine: &Machine, engine: usize) -> Result<(), Failure> {
        let store = self.open(machine)?;
        let _in_use = store.hold()?;
        let mut open: Vec<&Record> = self.schedule.jobs.iter().collect();
        while !open.is_empty() {
            let at = machine.state().random.below(open.len());
            let job = open[at];
            let claim = match store.claim(job.key) {
                // Other engines have removed the job that it had begun.
                Err(_) if machine.was_silent(engine) => continue,
                claim => claim?,
            };
            match claim {
                Claim::Hit(record) => {
                    // An engine that was silent is not seen by those that remove records.
                    if !machine.was_silent(engine) {
                        self.found(machine, &store, &record);
                    }
                    open.remove(at);
                }
                Claim::Busy => fs::pause(Duration::from_secs(10)),
                Claim::Miss(pending) if self.fails(machine) => {
                    self.claimed(machine, engine, &store, job.key);
                    fs::pause(Duration::from_mins(1));
                    self.results().claims.retain(|claim| *claim != (job.key, engine));
                    drop(pending);
                }
                Claim::Miss(pending) => match self.execute(machine, engine, &store, pending, job) {
                    Err(_) if machine.was_silent(engine) => {}
                    result => {
                        result?;
                        open.remove(at);
                    }
                },
            }
        }
        Ok(())
    }

    /// True if a job is about to fail.
    fn fails(&self, machine: &Machine) -> bool {
        machine.state().random.once_in(self.schedule.failures)
    }

    fn execute(
        &self,
        machine: &Machine,
        engine: usize,
        store: &Store,
        pending: Pending,
        job: &Record,
    ) -> Result<(), Failure> {
        let run = self.claimed(machine, engine, store, job.key);
        let result = Self::work(&pending, job, run);
        if let Err(error) = result {
            self.results().claims.retain(|claim| *claim != (job.key, engine));
            return Err(error);
        }
        let mut record = job.clone();
        record.outcome.set_open("value", number(run), Unit::One);
        record.read = Some(set(job).id());
        let committed = pending.commit(record);
        let mut results = self.results();
        results.claims.retain(|claim| *claim != (job.key, engine));
        let overlapped = results.overlapped.contains(&(job.key, engine));
        let record = committed?;
        if overlapped {
            machine.violation(format!("job {} ran twice at once", job.key.short()));
        }
        // An engine that was silent is not seen by those that remove records: the record may be gone already.
        if self.schedule.removes && machine.was_silent(engine) {
            return Ok(());
        }
        let stored = run_of(&record);
        if let Some(before) = results.done.insert(job.key, stored).or_else(|| results.seen.get(&job.key).copied())
            && before != stored
        {
            machine.violation(format!("job {} was done by run {before}, and is by run {stored}", job.key.short()));
        }
        Ok(())
    }

    /// Notes a claim, and returns the number of the run.
    fn claimed(&self, machine: &Machine, engine: usize, store: &Store, key: Key) -> u64 {
        let mut results = self.results();
        results.holders.push((key, engine));
        // A holder that was silent may store its record between the next holder's look for one and its run, and may run its job late.
        let has_late_holder = results.holders.iter().any(|(of, other)| *of == key && machine.was_silent(*other));
        if results.done.contains_key(&key) && !has_late_holder {
            machine.violation(format!("job {} runs again although it is done", key.short()));
        }
        let text = std::fs::read(store.record_file(key));
        if !has_late_holder && text.is_ok_and(|text| Record::parse(&text, Path::new("x"), key).is_ok()) {
            machine.violation(format!("job {} runs although it has a record", key.short()));
        }
        let others: Vec<usize> =
            results.claims.iter().filter(|(other, _)| *other == key).map(|(_, other)| *other).collect();
        for other in others {
            let state = machine.state();
            // An engine that is silent between its last look at its lease and the removal removes the lease of the next holder.
            let has_removed_late = (0..self.schedule.hosts.len()).any(|any| Machine::removes_late(&state, any));
            let are_undisturbed = [other, engine].into_iter().all(|engine| Machine::is_undisturbed(&state, engine));
            if are_undisturbed && !has_removed_late {
                results.overlapped.push((key, other));
            }
        }
        results.claims.push((key, engine));
        results.runs += 1;
        results.runs
    }

    fn work(pending: &Pending, job: &Record, run: u64) -> Result<(), Failure> {
        fs::write(pending.dir().join("output"), content(job.key, run))?;
        fs::create_dir(pending.dir().join("inner"))?;
        fs::write(pending.dir().join("inner/log"), format!("{run}"))?;
        fs::write(pending.scratch().join("checkpoint"), "1")?;
        fs::pause(Duration::from_secs(130));
        pending.add_manifest(&job.identity, Tool::Kernel, &set(job))?;
        Ok(())
    }

    /// Checks a record that an engine has found.
    fn found(&self, machine: &Machine, store: &Store, record: &Record) {
        let (key, run) = (record.key, run_of(record));
        let output = std::fs::read_to_string(store.files(key).join("output")).unwrap_or_default();
        if output != content(key, run) {
            machine.violation(format!("the record of {} has not its own output", key.short()));
        }
        let mut results = self.results();
        // A record that is about to be removed may still be found.
        let is_removed = results.removing.contains(&key);
        let before = results.done.get(&key).copied();
        if let Some(before) = before.or_else(|| if is_removed { None } else { results.seen.insert(key, run) })
            && before != run
        {
            machine.violation(format!("job {} had the result of run {before}, and has that of run {run}", key.short()));
        }
    }

    /// Verifies the store after all engines have ended, as the next sweep does, and runs the missing jobs.
    fn recover(&self, machine: &Machine) -> Result<(), Failure> {
        let store = Store::open(&machine.root.join("results"))?;
        let report = store.verify()?;
        for defect in &report.defects {
            machine.violation(format!("{} is damaged: {}", defect.key.short(), defect.reason));
        }
        let done = self.results().done.clone();
        for (key, run) in done {
            match store.get(key)? {
                Some(record) if run_of(&record) == run => self.found(machine, &store, &record),
                Some(record) => machine.violation(format!(
                    "job {} was done by run {run}, and is by run {}",
                    key.short(),
                    run_of(&record)
                )),
                None => machine.violation(format!("job {} was done and is lost", key.short())),
            }
        }
        self.run(machine, 0)?;
        // Longer than a lease that was renewed before the clock went back.
        fs::pause(Duration::from_secs(4000));
        let wanted: HashSet<Key> = self.schedule.jobs.iter().map(|job| job.key).collect();
        for _ in 0..20 {
            let garbage = store.garbage(&wanted)?;
            match store.remove(&garbage) {
                Err(GcError::InUse) => fs::pause(Duration::from_secs(30)),
                result => {
                    result?;
                    break;
                }
            }
        }
        let report = store.verify()?;
        let garbage = store.garbage(&wanted)?;
        if report.records != self.schedule.jobs.len() || !report.defects.is_empty() || !report.damaged_lines.is_empty()
        {
            machine.violation(format!("after everything has run: {report:?}"));
        }
        if !garbage.is_empty() {
            machine.violation(format!("garbage is left after its removal: {garbage:?}"));
        }
        drop(store);
        let locks: Vec<_> = std::fs::read_dir(machine.root.join("results/store/locks"))?.flatten().collect();
        if !locks.is_empty() {
            machine.violation(format!("locks are left: {locks:?}"));
        }
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was made from a small number")]
fn run_of(record: &Record) -> u64 {
    record.outcome.metrics.get("value").map_or(0, |metric| metric.value as u64)
}

fn number(run: u64) -> f64 {
    run as f64
}
