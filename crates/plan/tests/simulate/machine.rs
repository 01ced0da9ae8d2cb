//! The simulated machines: engines as threads of which one runs at a time, a clock, and faults at operations.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use sweep_base::host::files::{File, Operation, Place, Planted, World, set_times};

use crate::{
    disk::Disk,
    faults::{Fault, Kind, Moment},
    random::Random,
};

/// The simulated time begins here.
const BEGINNING: Duration = Duration::from_secs(1_000_000_000);
/// An engine that has not ended after this number of operations of all engines is treated as endless.
const MOST_OPERATIONS: u64 = 400_000;

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about an engine")]
struct Engine {
    host: usize,
    is_killed: bool,
    has_ended: bool,
    /// Not to run before that.
    wakes: Option<Duration>,
    is_silent: bool,
    /// The engine was silent at some time, so that others may have taken its leases.
    was_silent: bool,
    /// The engine was silent before it removed a file.
    removes_late: bool,
    /// One of its operations has failed, as planned.
    had_error: bool,
    leases: Vec<Weak<File>>,
}

/// The shared state of disk, clock and engines.
pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) disk: Disk,
    engines: Vec<Engine>,
    turn: usize,
    pub(crate) operations: u64,
    /// Operations so far, by kind.
    counts: BTreeMap<Kind, u64>,
    faults: Vec<(Moment, Fault)>,
    /// Faults that have happened, with the kinds of their operations.
    pub(crate) struck: Vec<(&'static str, Kind)>,
    full_until: u64,
    /// The answer to this operation is lost.
    is_repeated: bool,
    /// One in this many operations gives the turn away.
    stretch: usize,
    /// The same for operations that change or lock names, at which races are lost.
    short_stretch: usize,
    pub(crate) has_failed: bool,
    /// Handles whose sync a planted bug has put off.
    put_off: Vec<u64>,
    /// Digest of all operations, to compare a replay with.
    pub(crate) trace: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) planted: Option<Planted>,
    /// Several machines use the store.
    is_shared: bool,
    log: Option<String>,
}

/// The machines.
pub(crate) struct Machine {
    pub(crate) root: PathBuf,
    state: Mutex<State>,
    turns: Vec<Condvar>,
    /// Milliseconds since [`BEGINNING`].
    clock: AtomicU64,
}

/// An engine's seat.
pub(crate) struct Seat {
    pub(crate) machine: Arc<Machine>,
    pub(crate) engine: usize,
}

fn killed() -> io::Error {
    io::Error::other("the engine is killed")
}

impl Machine {
    /// Machines with engines on these hosts, below a folder.
    pub(crate) fn new(
        root: &Path,
        seed: u64,
        hosts: &[usize],
        faults: Vec<(Moment, Fault)>,
        planted: Option<Planted>,
        is_shared: bool,
    ) -> Self {
        let mut random = Random::new(seed);
        let stretch = [2, 4, 8, 30][random.below(4)];
        let short_stretch = if random.once_in(2) { 2 } else { stretch };
        let engines = hosts.iter().map(|host| Engine { host: *host, ..Engine::default() }).collect();
        let turn = random.below(hosts.len());
        let log = std::env::var_os("SWEEP_SIMULATE_TRACE").map(|_| String::new());
        let state = State {
            random,
            disk: Disk::new(root),
            engines,
            turn,
            operations: 0,
            counts: BTreeMap::new(),
            faults,
            struck: Vec::new(),
            full_until: 0,
            is_repeated: false,
            stretch,
            short_stretch,
            has_failed: false,
            put_off: Vec::new(),
            trace: 0,
            violations: Vec::new(),
            planted,
            is_shared,
            log,
        };
        let turns = hosts.iter().map(|_| Condvar::new()).collect();
        Self { root: root.to_owned(), state: Mutex::new(state), turns, clock: AtomicU64::new(0) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.clock.load(Ordering::Relaxed))
    }

    pub(crate) fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + BEGINNING + self.elapsed()
    }

    /// Lets the clock go on, and the living renew their leases.
    pub(crate) fn advance(&self, state: &mut State, to: Duration) {
        self.clock.store(u64::try_from(to.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let now = self.now();
        let is_renewed = state.planted != Some(Planted::NoRenewal);
        for engine in &mut state.engines {
            engine.is_silent &= engine.wakes.is_some_and(|wakes| wakes > to);
            if engine.is_killed || engine.has_ended || engine.is_silent || !is_renewed {
                continue;
            }
            for lease in engine.leases.iter().filter_map(Weak::upgrade) {
                let _ = set_times(&lease, Some(now));
            }
        }
    }

    /// Gives the turn to an engine that can run.
    fn pass(&self, state: &mut State) {
        let open: Vec<usize> = (0..state.engines.len()).filter(|engine| !state.engines[*engine].has_ended).collect();
        if open.is_empty() {
            return;
        }
        let now = self.elapsed();
        let awake = |state: &State, engine: &usize| {
            let engine = &state.engines[*engine];
            engine.is_killed || state.has_failed || engine.wakes.is_none_or(|wakes| wakes <= now)
        };
        let mut ready: Vec<usize> = open.iter().copied().filter(|engine| awake(state, engine)).collect();
        if ready.is_empty() {
            let next = open.iter().filter_map(|engine| state.engines[*engine].wakes).min().unwrap_or(now);
            self.advance(state, next);
            ready =
                open.into_iter().filter(|engine| state.engines[*engine].wakes.is_none_or(|at| at <= next)).collect();
        }
        let next = ready[state.random.below(ready.len())];
        state.engines[next].wakes = None;
        state.engines[next].is_silent = false;
        state.turn = next;
        self.turns[next].notify_one();
    }

    fn wait<'m>(&self, mut state: MutexGuard<'m, State>, engine: usize) -> MutexGuard<'m, State> {
        while state.turn != engine {
            state = self.turns[engine].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// The thread of an engine waits for its first turn.
    pub(crate) fn begin(&self, engine: usize) {
        drop(self.wait(self.state(), engine));
    }

    /// The thread of an engine has ended.
    pub(crate) fn end(&self, engine: usize) {
        let mut state = self.wait(self.state(), engine);
        state.engines[engine].has_ended = true;
        self.pass(&mut state);
    }

    /// Notes that an invariant is violated.
    pub(crate) fn violation(&self, text: String) {
        self.state().violations.push(text);
    }

    /// True if the engine is alive, and always was.
    pub(crate) fn is_undisturbed(state: &State, engine: usize) -> bool {
        let engine = &state.engines[engine];
        !engine.is_killed && !engine.was_silent && !state.has_failed
    }

    /// True if the engine was silent before it removed a file.
    pub(crate) fn removes_late(state: &State, engine: usize) -> bool {
        state.engines[engine].removes_late
    }

    /// True if the engine was silent, and others have taken it for dead.
    pub(crate) fn was_silent(&self, engine: usize) -> bool {
        let state = self.state();
        state.engines[engine].was_silent && !state.engines[engine].is_killed && !state.has_failed
    }

    /// True if an engine's run may end with an error: after a fault of its own, or after another engine was silent between its last look
    /// at its lease and a removal.
    pub(crate) fn may_fail(&self, engine: usize) -> bool {
        let state = self.state();
        state.has_failed
            || state.engines[engine].is_killed
            || state.engines[engine].had_error
            || state.engines.iter().any(|other| other.removes_late)
    }
}

impl State {
    /// Applies the faults of this operation; the error that it fails with.
    fn fault(&mut self, machine: &Machine, engine: usize, operation: &Operation<'_>) -> Option<io::Error> {
        let (number, kind) = (self.operations, Kind::of(operation));
        let of_kind = self.counts.entry(kind).or_default();
        *of_kind += 1;
        let is_due = |moment: &Moment| match moment.kind {
            None => moment.number == number,
            Some(other) => other == kind && moment.number == *of_kind,
        };
        let due: Vec<Fault> = self.faults.iter().filter(|(at, _)| is_due(at)).map(|(_, fault)| *fault).collect();
        let mut error = None;
        for fault in due {
            self.struck.push((fault.name(), kind));
            match fault {
                Fault::Kill => self.engines[engine].is_killed = true,
                Fault::PowerFailure => self.has_failed = true,
                Fault::Silence(time) => {
                    self.engines[engine].wakes = Some(machine.elapsed() + time);
                    self.engines[engine].is_silent = true;
                    self.engines[engine].was_silent = true;
                    self.engines[engine].removes_late |=
                        matches!(operation, Operation::Remove(_) | Operation::RemoveFolder(_));
                }
                // Without leases, a lock whose name cannot be removed stays while its process lives.
                Fault::Error if matches!(operation, Operation::Remove(_)) && !self.is_shared => {}
                Fault::Error => error = Some(io::Error::from_raw_os_error(5)),
                Fault::Repeated => self.is_repeated = true,
                Fault::Full(count) => self.full_until = number + count,
                Fault::ClockBack(time) => {
                    let back = machine.elapsed().saturating_sub(time);
                    machine.clock.store(u64::try_from(back.as_millis()).unwrap_or(0), Ordering::Relaxed);
                }
            }
        }
        let grows = matches!(
            operation,
            Operation::Write { .. }
                | Operation::MakeFolder(_)
                | Operation::Link { .. }
                | Operation::Open { creates: true, .. }
        );
        if number < self.full_until && grows {
            error = Some(io::ErrorKind::StorageFull.into());
        }
        error
    }

    /// Mixes an operation into the trace.
    fn note(&mut self, machine: &Machine, engine: usize, operation: &Operation<'_>) {
        // Neither names nor bytes: those of leases have a number that counts on in the process.
        let kind = Kind::of(operation);
        self.trace = Random::new(self.trace ^ ((kind as u64) << 4 | engine as u64)).next();
        if let Some(log) = &mut self.log {
            let operation = match operation {
                Operation::Sync(handle) | Operation::Write { handle, .. } | Operation::Lock(handle) => {
                    format!("{kind:?} of {:?}", self.disk.path(*handle))
                }
                other => format!("{other:?}"),
            };
            let _ = writeln!(
                log,
                "{} engine {engine}: {}",
                self.operations,
                operation.replace(&machine.root.display().to_string(), "")
            );
        }
    }

    /// The operations so far, if they are asked for.
    pub(crate) fn log(&self) -> &str {
        self.log.as_deref().unwrap_or_default()
    }

    /// True if a planted bug leaves out this sync.
    fn leaves_out(&self, machine: &Machine, handle: u64) -> bool {
        let Some(bug) = self.planted else { return false };
        let Some(path) = self.disk.path(handle) else { return false };
        let inner = path.strip_prefix(&machine.root).unwrap_or(&path);
        let parts: Vec<&str> = inner.iter().filter_map(|part| part.to_str()).collect();
        let is_folder = path.is_dir();
        match (bug, parts.as_slice()) {
            (Planted::RecordNotSynced, [_, "store", "staging", _, "record.json"])
            | (Planted::FilesNotSynced, [_, "store", "staging", _, "files", _])
            | (Planted::ProjectNotSynced, [])
            | (Planted::ResultsNotSynced, [_])
            | (Planted::StoreNotSynced, [_, "store"])
            | (Planted::LineNotSynced, [_, "store", "manifests", "list.jsonl"]) => true,
            (Planted::StagingNotSynced, [_, "store", "staging", ..]) => is_folder,
            (Planted::ShardNotSynced, [_, "store", shard]) => is_folder && shard.len() == 2,
            (Planted::SetNotSynced, [_, "store", name]) => name.starts_with(".tmp"),
            _ => false,
        }
    }
}

impl Seat {
    /// Takes a turn before an operation.
    fn enter(&self, operation: &Operation<'_>) -> (MutexGuard<'_, State>, Option<io::Error>) {
        let machine = &*self.machine;
        let mut state = machine.wait(machine.state(), self.engine);
        let is_of_names =
            matches!(Kind::of(operation), Kind::Link | Kind::Rename | Kind::Remove | Kind::Lock | Kind::Open);
        let stretch = if is_of_names { state.short_stretch } else { state.stretch };
        if state.random.once_in(stretch) {
            machine.pass(&mut state);
            state = machine.wait(state, self.engine);
        }
        let is_over = |state: &State| state.engines[self.engine].is_killed || state.has_failed;
        if is_over(&state) {
            return (state, Some(killed()));
        }
        state.operations += 1;
        if state.operations > MOST_OPERATIONS {
            state.violations.push("an engine never ends".to_owned());
            state.has_failed = true;
        }
        let mut error = state.fault(machine, self.engine, operation);
        if state.engines[self.engine].is_silent && !is_over(&state) {
            machine.pass(&mut state);
            state = machine.wait(state, self.engine);
        }
        if is_over(&state) {
            error = Some(killed());
        }
        (state, error)
    }

    /// A planted bug: the content of a folder is moved file by file.
    fn fill(&self, mut state: MutexGuard<'_, State>, from: &Path, to: &Path) -> io::Result<()> {
        let mut moves: Vec<PathBuf> =
            fs_err::read_dir(from)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        moves.sort_by_key(|path| path.is_dir());
        fs_err::create_dir(to)?;
        let now = self.machine.now();
        state.disk.note(&Operation::MakeFolder(to), now);
        drop(state);
        for path in moves {
            let target = to.join(path.file_name().unwrap_or_default());
            let operation = Operation::Rename { from: &path, to: &target };
            self.perform(&operation, &mut || fs_err::rename(&path, &target))?;
        }
        self.perform(&Operation::RemoveFolder(from), &mut || fs_err::remove_dir(from))
    }
}

impl World for Seat {
    fn perform(&self, operation: &Operation<'_>, act: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let (mut state, error) = self.enter(operation);
        let machine = &*self.machine;
        state.note(machine, self.engine, operation);
        let bug = state.planted;
        match (error, operation) {
            (Some(_), Operation::Write { .. }) if bug == Some(Planted::ErrorIgnored) => return Ok(()),
            (Some(error), _) => {
                state.engines[self.engine].had_error = true;
                return Err(error);
            }
            (None, _) => {}
        }
        match operation {
            Operation::Rename { from, to }
                if bug == Some(Planted::FilledInPlace)
                    && from.parent().is_some_and(|parent| parent.ends_with("staging"))
                    && to.iter().any(|part| part.len() == 2) =>
            {
                return self.fill(state, from, to);
            }
            Operation::Sync(handle) if state.leaves_out(machine, *handle) => return Ok(()),
            Operation::Sync(handle) if bug == Some(Planted::RenameBeforeSync) => {
                if state.disk.path(*handle).is_some_and(|path| path.iter().any(|part| part == "staging")) {
                    state.put_off.push(*handle);
                    return Ok(());
                }
                // The planted bug syncs files after the rename instead of before it.
                for handle in std::mem::take(&mut state.put_off) {
                    state.disk.sync_handle(handle);
                }
            }
            _ => {}
        }
        let is_repeated = std::mem::take(&mut state.is_repeated);
        act()?;
        state.disk.note(operation, machine.now());
        if let Some(error) = Kind::of(operation).repeated().filter(|_| is_repeated) {
            state.engines[self.engine].had_error = true;
            return Err(error.into());
        }
        // The file system has the machine's clock.
        let changed = match operation {
            Operation::Open { path, creates: true, .. } => Some(path.to_path_buf()),
            Operation::Write { handle, .. } => state.disk.path(*handle),
            _ => None,
        };
        if let Some(path) = changed {
            std::fs::File::options().write(true).open(path)?.set_modified(machine.now())?;
        }
        Ok(())
    }

    fn pause(&self, time: Duration) {
        let machine = &*self.machine;
        let mut state = machine.wait(machine.state(), self.engine);
        state.operations += 1;
        if state.operations > MOST_OPERATIONS && !state.has_failed {
            state.violations.push("an engine waits for ever".to_owned());
            state.has_failed = true;
        }
        // Shorter polls of a lock that a stopped engine holds would be taken for an engine that never ends.
        let time = time.max(Duration::from_millis(100));
        state.engines[self.engine].wakes = Some(machine.elapsed() + time);
        machine.pass(&mut state);
        drop(machine.wait(state, self.engine));
    }

    fn now(&self) -> SystemTime {
        self.machine.now()
    }

    fn skew(&self) -> Duration {
        // The machines' clocks differ by hours.
        Duration::from_hours(1) * u32::try_from(self.engine).unwrap_or(0)
    }

    fn keep_alive(&self, file: Weak<File>) {
        self.machine.state().engines[self.engine].leases.push(file);
    }

    fn place(&self) -> Place {
        let host = self.machine.state().engines[self.engine].host;
        let pid = 100 + u32::try_from(self.engine).unwrap_or(0);
        Place { host: format!("host-{host}"), boot: "boot".to_owned(), pid, begun: pid.into() }
    }

    fn begun(&self, pid: u32) -> Option<u64> {
        let state = self.machine.state();
        let engine = state.engines.get(usize::try_from(pid).ok()?.checked_sub(100)?)?;
        (!engine.is_killed && !engine.has_ended).then_some(pid.into())
    }

    fn planted(&self, bug: Planted) -> bool {
        self.machine.state().planted == Some(bug)
    }
}
