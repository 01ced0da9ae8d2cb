//! The thread that runs the queue: it hears of hosts and jobs, asks the queue what follows, and has it done.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    LOCAL, local,
    members::{self, HostState, Members, States},
    operations,
    place::{Place, PlaceId, Wants},
    placements::{Log, Placement, Said, Where},
    queue::{Collected, Entry, Order, Queue, Sent, There},
};
use crate::{
    hosts::{Connection, HostEvent, Probe, Project, SpoolState, SpooledJob},
    plan::{JobId, Plan, SerializedJob},
    recipe::executor::ssh::{Ssh, SshHost},
    record::Key,
    run::{
        RunFolder, allocation,
        cluster::{BatchId, Opening},
        job_specs,
        slots::{Lease, Limits},
    },
    store::{Claim, Pending, Store},
};

/// Interval at which time is told to the queue.
const TICK: Duration = Duration::from_millis(200);
/// Interval of slower looks: at the list of hosts, and at jobs of other processes.
const LOOK: Duration = Duration::from_secs(1);
/// Time to wait at the end for what is still being done.
const LAST: Duration = Duration::from_secs(5);

/// Something for the agent.
#[derive(Debug)]
pub(super) enum Input {
    /// The queue has changed.
    Wake,
    /// A host has said something.
    Host(PlaceId, HostEvent),
    Sent {
        key: Key,
        place: PlaceId,
        sent: Sent,
    },
    Collected {
        key: Key,
        place: PlaceId,
        collected: Collected,
        claim: Option<Pending>,
    },
    Listed {
        place: PlaceId,
        jobs: Vec<SpooledJob>,
    },
    /// A process on this machine has ended.
    Ended {
        key: Key,
        word: String,
    },
    /// A sentence for the user.
    News(String),
    /// The run is over.
    End,
}

/// State that the agent shares with the run and with threads that do things.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) opening: Opening,
    pub(super) settings: Ssh,
    pub(super) store: Store,
    /// The folder in which the sweep was started.
    pub(super) folder: PathBuf,
    pub(super) sender: Sender<Input>,
    pub(super) state: Mutex<State>,
    /// Projects whose files have been collected.
    pub(super) projects: Mutex<HashMap<PathBuf, Project>>,
    /// Number of things that are being done.
    busy: (Mutex<usize>, Condvar),
}

/// State of the queue and of its places.
#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) tasks: HashMap<Key, Task>,
    pub(super) links: Vec<Link>,
    pub(super) news: Vec<String>,
}

/// What it takes to run a job.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: BatchId,
    pub(super) tag: String,
    pub(super) run: String,
    pub(super) at: u64,
    /// The file for what the job's own engine prints.
    pub(super) output: PathBuf,
    pub(super) claim: Option<Pending>,
    /// Its journal and its log, and the place whose words go there.
    pub(super) streams: Option<Streams>,
    /// Its process on this machine, and the end of it in words.
    pub(super) process: Option<Where>,
    pub(super) word: String,
    /// Number of records of it that were damaged on the way.
    pub(super) damaged: u32,
}

/// Files that grow while a job runs on a place.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) place: PlaceId,
    pub(super) said: Said,
    pub(super) log: Arc<Mutex<Log>>,
}

/// A place, as it is reached.
#[derive(Debug)]
pub(super) enum Link {
    /// This machine, with the names of its GPUs.
    Local(Vec<String>),
    Host(HostLink),
}

/// A host.
#[derive(Debug)]
pub(super) struct HostLink {
    pub(super) host: SshHost,
    /// `None` once it has left.
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) probe: Option<Box<Probe>>,
}

impl Shared {
    pub(super) fn new(opening: Opening, settings: Ssh, sender: Sender<Input>) -> io::Result<Self> {
        let state = State {
            queue: Queue::new(settings.lost_after),
            tasks: HashMap::new(),
            links: Vec::new(),
            news: Vec::new(),
        };
        Ok(Self {
            store: Store::new(&opening.results),
            folder: std::env::current_dir()?,
            opening,
            settings,
            sender,
            state: Mutex::new(state),
            projects: Mutex::default(),
            busy: (Mutex::new(0), Condvar::new()),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the agent. One that has ended needs to know nothing.
    pub(super) fn tell(&self, input: Input) {
        let _ = self.sender.send(input);
    }

    /// Does something beside the agent. Without a thread for it, it is done here.
    pub(super) fn beside(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        *self.busy.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let shared = Arc::clone(self);
        let all = move || {
            work(&shared);
            *shared.busy.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            shared.busy.1.notify_all();
        };
        // A system without threads for this has none for jobs either: the work is lost, and the host is asked again.
        let _ = thread::Builder::new().name("hosts".into()).spawn(all);
    }

    /// Waits for what is being done, for a while.
    fn settle(&self) {
        let count = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.busy.1.wait_timeout_while(count, LAST, |count| *count > 0);
    }

    /// Adds a host to those of the run; it is connected in the background.
    pub(super) fn open_host(&self, state: &mut State, host: SshHost) -> io::Result<PlaceId> {
        let place = state.queue.places.len();
        let sender = self.sender.clone();
        let tell = move |event| {
            // An agent that has ended needs to know nothing.
            let _ = sender.send(Input::Host(place, event));
        };
        let connection = Connection::open(operations::target(&host), operations::submitter(&self.store)?, tell)?;
        state.queue.places.push(Place::new(host.host.clone()));
        state.links.push(Link::Host(HostLink { host, connection: Some(Arc::new(connection)), probe: None }));
        Ok(place)
    }

    /// Adds this machine to the places.
    pub(super) fn open_local(&self, state: &mut State) -> PlaceId {
        let (limits, gpus) = allocation::share(None, None);
        let mut place = Place::new(LOCAL.to_owned());
        place.connect(limits);
        state.queue.places.push(place);
        state.links.push(Link::Local(gpus));
        state.queue.places.len() - 1
    }
}

impl Streams {
    /// Those of a job that begins on a place now.
    pub(super) fn begin(opening: &Opening, run: &str, key: Key, place: PlaceId) -> io::Result<Self> {
        let said = Said::begin(&opening.results, run, key)?;
        Ok(Self { place, said, log: Arc::new(Mutex::new(Log::begin(&opening.results, run, key))) })
    }

    /// Those of a job that an earlier process has placed.
    pub(super) fn resume(opening: &Opening, placement: &Placement, place: PlaceId) -> io::Result<Self> {
        let said = Said::resume(&opening.results, placement)?;
        Ok(Self { place, said, log: Arc::new(Mutex::new(Log::resume(&opening.results, placement))) })
    }
}

impl State {
    /// The place of this name.
    pub(super) fn place(&self, name: &str) -> Option<PlaceId> {
        self.queue.places.iter().position(|place| place.name == name)
    }

    /// The connection to a place, if it is a host that has not left.
    pub(super) fn connection(&self, place: PlaceId) -> Option<Arc<Connection>> {
        match self.links.get(place)? {
            Link::Local(_) => None,
            Link::Host(host) => host.connection.clone(),
        }
    }
}

/// Result of claiming a job.
enum Claimed {
    Yes,
    Busy,
    Done,
}

/// The thread.
pub(super) struct Agent {
    shared: Arc<Shared>,
    looked: Instant,
    members: Option<SystemTime>,
    states: Option<States>,
}

impl Agent {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let members = members::changed(&shared.opening.results);
        Self { shared, looked: Instant::now(), members, states: None }
    }

    /// Runs until the end.
    pub(super) fn run(mut self, receiver: &Receiver<Input>) {
        loop {
            let input = receiver.recv_timeout(TICK);
            let shared = Arc::clone(&self.shared);
            let mut state = shared.state();
            match input {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(input) => {
                    self.on(&mut state, input);
                    while let Ok(input) = receiver.try_recv() {
                        if matches!(input, Input::End) {
                            drop(state);
                            return self.end();
                        }
                        self.on(&mut state, input);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            state.queue.tick(now);
            if now >= self.looked + LOOK {
                self.looked = now;
                self.look(&mut state);
            }
            state.queue.schedule(now);
            for order in state.queue.orders() {
                self.carry_out(&mut state, order);
            }
        }
        self.end();
    }

    fn end(&self) {
        self.shared.settle();
        States::remove(&self.shared.opening.results);
    }

    fn on(&self, state: &mut State, input: Input) {
        let now = Instant::now();
        match input {
            Input::Wake | Input::End => {}
            Input::News(sentence) => state.news.push(sentence),
            Input::Host(place, event) => self.host(state, place, event),
            Input::Sent { key, place, sent } => {
                if let Sent::Never(_) | Sent::Full | Sent::Refused = sent {
                    let name = &state.queue.places[place].name;
                    Placement::remove(&self.shared.opening.results, key, name);
                }
                state.queue.sent(key, place, sent, now);
                self.let_go(state, key);
            }
            Input::Collected { key, place, collected, claim } => {
                if let Some(task) = state.tasks.get_mut(&key) {
                    task.claim = claim;
                }
                state.queue.collected(key, place, collected, now);
                self.let_go(state, key);
            }
            Input::Listed { place, jobs } => state.queue.listed(place, &listing(&jobs), now),
            Input::Ended { key, word } => {
                let Some(place) = state.place(LOCAL) else { return };
                if let Some(task) = state.tasks.get_mut(&key) {
                    (task.process, task.word) = (None, word);
                }
                let there = if self.shared.store.contains(key) { There::Recorded } else { There::Ended };
                state.queue.ended(key, place, there, now);
            }
        }
    }

    fn host(&self, state: &mut State, place: PlaceId, event: HostEvent) {
        let now = Instant::now();
        match event {
            HostEvent::Connected(probe) => {
                let Some(Link::Host(link)) = state.links.get_mut(place) else { return };
                let limits = limits(&link.host, &probe);
                let known = link.probe.is_some();
                let jobs = listing(&probe.jobs);
                let sentence = introduction(&link.host.host, &probe, &limits);
                link.probe = Some(probe);
                if known && !state.queue.places[place].is_up() {
                    state.news.push(format!("{} answers again", state.queue.places[place].name));
                } else if !known {
                    state.news.push(sentence);
                }
                state.queue.places[place].connect(limits);
                state.queue.listed(place, &jobs, now);
            }
            HostEvent::Lost(error) => {
                let was_up = state.queue.places[place].is_up() || state.queue.places[place].is_new();
                if error.is_lasting() {
                    if state.queue.places[place].refuse(error.to_string(), now) {
                        state.news.push(error.to_string());
                    }
                } else if was_up {
                    state.news.push(error.to_string());
                }
                if !error.is_lasting() {
                    state.queue.lost(place, now);
                }
                self.give_up(state);
            }
            HostEvent::Said { key, at: _, line } => {
                let name = &state.queue.places[place].name;
                let streams = state.tasks.get_mut(&key).and_then(|task| task.streams.as_mut());
                if let Some(streams) = streams.filter(|streams| streams.place == place)
                    && let Err(error) = streams.said.say(&line, name)
                {
                    state.news.push(format!("cannot write what {} says: {error}", key.short()));
                }
            }
            HostEvent::Ended { key, has_record } => {
                let there = if has_record { There::Recorded } else { There::Ended };
                state.queue.ended(key, place, there, now);
            }
            HostEvent::Note(sentence) => state.news.push(sentence),
        }
    }

    /// If no place can be used before somebody does something, the jobs do not wait for it.
    fn give_up(&self, state: &mut State) {
        let places = || state.queue.places.iter().filter(|place| !place.leaving);
        let reasons: Vec<&str> = places().map_while(|place| place.refused()).collect();
        if reasons.len() == places().count() && state.queue.is_waiting() {
            let reason = format!("{}{}", super::NOT_STARTED, reasons.join("; "));
            state.queue.give_up(&reason);
        }
    }

    /// Has an order of the queue done.
    fn carry_out(&self, state: &mut State, order: Order) {
        match order {
            Order::Start { key, place, lease } => self.start(state, key, place, lease),
            Order::Follow { key, place } => self.follow(state, key, place),
            Order::Collect { key, place } => self.collect(state, key, place),
            Order::Stop { key, place, scope } => match state.connection(place) {
                Some(connection) => self.shared.beside(move |_| operations::stop(&connection, key, scope)),
                None => {
                    if let Some(process) = state.tasks.get(&key).and_then(|task| task.process.as_ref()) {
                        local::stop(process, scope);
                    }
                }
            },
            Order::Forget { key, place } => match state.connection(place) {
                Some(connection) => self.shared.beside(move |shared| operations::forget(shared, &connection, key)),
                None => Placement::remove(&self.shared.opening.results, key, LOCAL),
            },
            Order::List { place } => {
                if let Some(connection) = state.connection(place) {
                    self.shared.beside(move |shared| {
                        if let Ok(jobs) = connection.jobs() {
                            shared.tell(Input::Listed { place, jobs });
                        }
                    });
                }
            }
        }
    }

    fn start(&self, state: &mut State, key: Key, place: PlaceId, lease: Lease) {
        let shared = &self.shared;
        let answer = |sent: Sent| shared.tell(Input::Sent { key, place, sent });
        let memory = state.queue.places[place].limits().map_or(0, |limits| limits.memory);
        let claimed = match state.links[place] {
            // Its engine claims the job.
            Link::Local(_) if state.tasks.get(&key).is_some_and(|task| task.claim.is_some()) => Claimed::Yes,
            Link::Local(_) if shared.store.contains(key) => Claimed::Done,
            Link::Local(_) if !shared.store.is_free(key) => Claimed::Busy,
            Link::Local(_) => Claimed::Yes,
            Link::Host(_) => self.claim(state, key),
        };
        match claimed {
            Claimed::Busy => return answer(Sent::Busy),
            Claimed::Done => return answer(Sent::Done),
            // A process that is gone has it on another place; that is looked at soon.
            Claimed::Yes if super::is_elsewhere(shared, state, key) => return answer(Sent::Busy),
            Claimed::Yes => {}
        }
        let Some(task) = state.tasks.get_mut(&key) else { return answer(Sent::Refused) };
        let streams = match Streams::begin(&shared.opening, &task.run, key, place) {
            Ok(streams) => streams,
            Err(error) => return answer(Sent::Never(format!("{}{error}", super::NOT_STARTED))),
        };
        let (lines, log) = (streams.said.before, lock(&streams.log).before);
        task.streams = Some(streams);
        let placement = |of: Where| Placement {
            key,
            id: task.id.clone(),
            tag: task.tag.clone(),
            run: task.run.clone(),
            at: task.at,
            place: of,
            lines,
            log,
        };
        match &state.links[place] {
            Link::Local(names) => {
                task.claim = None;
                let launch = local::Launch {
                    key,
                    run: task.run.clone(),
                    at: task.at,
                    results: shared.opening.results.clone(),
                    folder: shared.folder.clone(),
                    output: task.output.clone(),
                    gpus: visible(names, &lease),
                    memory,
                    lease,
                };
                match launch.start() {
                    Ok(child) => {
                        let process = local::identity(child.id());
                        // Without it, a later process waits for the job's record.
                        let _ = placement(process.clone()).write(&shared.opening.results);
                        task.process = Some(process);
                        shared.beside_for_long(move |shared| {
                            let word = local::wait(child);
                            shared.tell(Input::Ended { key, word });
                        });
                        answer(Sent::There(There::Running));
                    }
                    Err(error) => answer(Sent::Never(format!("{}{error}", super::NOT_STARTED))),
                }
            }
            Link::Host(link) => {
                let Some(connection) = link.connection.clone() else { return answer(Sent::Refused) };
                let names = link.probe.as_ref().map(|probe| probe.gpus.clone()).unwrap_or_default();
                let sending = operations::Sending {
                    placement: placement(Where::Host(link.host.clone())),
                    gpus: visible(&names, &lease),
                    lease,
                };
                shared.beside(move |shared| {
                    let sent = operations::send(shared, &connection, &sending);
                    shared.tell(Input::Sent { key, place, sent });
                });
                self.pull_logs(state, key, place);
            }
        }
    }

    /// Listens to a job that an earlier process has started, or that has come back with its host.
    fn follow(&self, state: &mut State, key: Key, place: PlaceId) {
        let shared = &self.shared;
        let answer = |sent: Sent| shared.tell(Input::Sent { key, place, sent });
        if matches!(state.links[place], Link::Host(_)) {
            match self.claim(state, key) {
                Claimed::Yes => {}
                Claimed::Busy => return answer(Sent::Busy),
                Claimed::Done => return answer(Sent::Done),
            }
        }
        let Some(connection) = state.connection(place) else { return };
        let Some(task) = state.tasks.get_mut(&key) else { return };
        if task.streams.as_ref().is_none_or(|streams| streams.place != place) {
            match Streams::begin(&shared.opening, &task.run, key, place) {
                Ok(streams) => task.streams = Some(streams),
                Err(error) => state.news.push(format!("cannot write what {} says: {error}", key.short())),
            }
        }
        shared.beside(move |shared| {
            if connection.follow(key).is_err() {
                shared.tell(Input::Sent { key, place, sent: Sent::Unsure });
            }
        });
        self.pull_logs(state, key, place);
    }

    fn collect(&self, state: &mut State, key: Key, place: PlaceId) {
        let shared = &self.shared;
        let answer = |collected: Collected, claim| shared.tell(Input::Collected { key, place, collected, claim });
        let Some(connection) = state.connection(place) else {
            let Some(task) = state.tasks.get_mut(&key) else { return };
            let done = shared.store.contains(key);
            let collected = if done { Collected::Stored } else { Collected::Nothing(task.word.clone()) };
            Placement::remove(&shared.opening.results, key, LOCAL);
            return answer(collected, task.claim.take());
        };
        match self.claim(state, key) {
            Claimed::Busy => return answer(Collected::Later, None),
            Claimed::Done => {
                answer(Collected::Stored, None);
                return shared.beside(move |shared| operations::forget(shared, &connection, key));
            }
            Claimed::Yes => {}
        }
        let Some(task) = state.tasks.get_mut(&key) else { return };
        let Some(claim) = task.claim.take() else { return answer(Collected::Later, None) };
        let streams = task.streams.as_ref().filter(|streams| streams.place == place);
        let log = streams.map(|streams| Arc::clone(&streams.log));
        let (output, damaged) = (task.output.clone(), task.damaged);
        shared.beside(move |shared| {
            let found = operations::Found { key, place, log, output, damaged };
            operations::collect(shared, &connection, &found, claim);
        });
    }

    /// Holds the claim of a job for as long as it is on a host.
    fn claim(&self, state: &mut State, key: Key) -> Claimed {
        let Some(task) = state.tasks.get_mut(&key) else { return Claimed::Busy };
        if task.claim.is_some() {
            return Claimed::Yes;
        }
        match self.shared.store.claim(key) {
            Ok(Claim::Miss(pending)) => {
                task.claim = Some(pending);
                Claimed::Yes
            }
            Ok(Claim::Hit(_)) => Claimed::Done,
            Ok(Claim::Busy) => Claimed::Busy,
            Err(error) => {
                state.news.push(format!("cannot claim {}: {error}", key.short()));
                Claimed::Busy
            }
        }
    }

    /// Lets other processes have a job that has ended without a record, or waits.
    fn let_go(&self, state: &mut State, key: Key) {
        if !state.queue.has(key)
            && let Some(task) = state.tasks.get_mut(&key)
        {
            (task.claim, task.streams) = (None, None);
        }
    }

    /// Appends what a job on a host prints to its log here, for as long as it runs.
    fn pull_logs(&self, state: &State, key: Key, place: PlaceId) {
        let Some(connection) = state.connection(place) else { return };
        let streams = state.tasks.get(&key).and_then(|task| task.streams.as_ref());
        let Some(streams) = streams.filter(|streams| streams.place == place) else { return };
        let log = Arc::downgrade(&streams.log);
        self.shared.beside_for_long(move |_| operations::pull(&connection, key, &log));
    }

    /// Looks at the list of hosts, and at jobs of processes that are gone.
    fn look(&mut self, state: &mut State) {
        let changed = members::changed(&self.shared.opening.results);
        if changed != self.members {
            self.members = changed;
            self.change_members(state);
        }
        for place in 0..state.queue.places.len() {
            let empty = state.queue.places[place].leaving && state.queue.count_on(place) == 0;
            if let Some(Link::Host(link)) = state.links.get_mut(place).filter(|_| empty) {
                link.connection = None;
            }
        }
        super::take_over(&self.shared, state);
        self.give_up(state);
        let states = self.states_of(state);
        if self.states.as_ref() != Some(&states) {
            // Only for `sweep hosts list`.
            let _ = states.write(&self.shared.opening.results);
            self.states = Some(states);
        }
    }

    fn change_members(&self, state: &mut State) {
        let members = match Members::read(&self.shared.opening.results) {
            Ok(members) => members,
            Err(error) => return state.news.push(error.to_string()),
        };
        let wanted = members.of(&self.shared.settings.hosts);
        for place in 0..state.queue.places.len() {
            let Link::Host(link) = &state.links[place] else { continue };
            let stays = wanted.iter().any(|host| *host == link.host) && link.connection.is_some();
            if !stays && !state.queue.places[place].leaving {
                let name = &state.queue.places[place].name;
                state.news.push(format!("{name} gets no new jobs; those that run there end there"));
                state.queue.places[place].leaving = true;
            }
        }
        for host in wanted {
            let known = |place: &PlaceId| matches!(&state.links[*place], Link::Host(link) if link.host == host && link.connection.is_some());
            let place = (0..state.links.len()).find(known);
            match place {
                Some(place) => state.queue.places[place].leaving = false,
                None => {
                    state.news.push(format!("{} joins", host.host));
                    if let Err(error) = self.shared.open_host(state, host) {
                        state.news.push(error.to_string());
                    }
                }
            }
        }
    }

    fn states_of(&self, state: &State) -> States {
        let places = state.queue.places.iter().zip(&state.links).enumerate();
        let hosts = places.map(|(id, (place, link))| {
            let ((used_cpus, used_gpus), limits) = (place.used(), place.limits());
            let state_word = match () {
                () if place.refused().is_some() => "refused",
                () if place.leaving => "leaving",
                () if place.is_up() => "connected",
                () if place.is_new() => "connecting",
                () => "unreachable",
            };
            let system = match link {
                Link::Host(HostLink { probe: Some(probe), .. }) => probe.system.clone(),
                _ => String::new(),
            };
            HostState {
                host: place.name.clone(),
                state: state_word.to_owned(),
                cpus: (used_cpus, limits.map_or(0, |limits| limits.cpus)),
                gpus: (used_gpus, limits.map_or(0, |limits| limits.gpus)),
                jobs: state.queue.count_on(id),
                about: place.refused().map_or(system, str::to_owned),
            }
        });
        States::of_this_process(hosts.collect())
    }
}

impl Shared {
    /// Does something that ends with the job that it is about; the end of the run does not wait for it.
    pub(super) fn beside_for_long(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let shared = Arc::clone(self);
        // Without a thread for a process it is looked at as one of an earlier sweep.
        let _ = thread::Builder::new().name("hosts".into()).spawn(move || work(&shared));
    }

    /// The entry of a job whose specification an earlier run has written.
    pub(super) fn entry(&self, placement: &Placement) -> io::Result<Entry> {
        let wants = wants(&self.opening, &placement.run, placement.at)?;
        let Placement { id, tag, key, .. } = placement.clone();
        Ok(Entry { id, tag, key, wants, after: Vec::new() })
    }
}

/// The resources that a job asks for, from its specification.
pub(super) fn wants(opening: &Opening, run: &str, at: u64) -> io::Result<Wants> {
    let spec = job_specs::read_at(RunFolder::named(&opening.results, run).path(), at)?;
    let alone = SerializedJob { needs: Vec::new(), lists: Vec::new(), ..spec };
    let plan = Plan::from_serialized([alone], &HashMap::new()).map_err(io::Error::other)?;
    Ok(Wants::of(plan.job(JobId::new(0))))
}

/// The resources of a host that jobs may use.
fn limits(host: &SshHost, probe: &Probe) -> Limits {
    let cpus = host.cpus.unwrap_or(probe.cpus);
    let gpus = host.gpus.map_or(probe.gpus.len(), |gpus| gpus.min(probe.gpus.len()));
    let gpu_memory = probe.gpu_memory.clone();
    Limits { cpus, gpus, gpu_memory, memory: host.memory.unwrap_or(probe.memory), jobs: cpus.max(gpus) }
}

fn introduction(name: &str, probe: &Probe, limits: &Limits) -> String {
    let gpus = match (limits.gpus, probe.gpu_names.first()) {
        (0, _) => String::new(),
        (count, Some(model)) => format!(", {} ({model})", crate::format::count(count, "GPU")),
        (count, None) => format!(", {}", crate::format::count(count, "GPU")),
    };
    format!("{name}: {}{gpus}, {}", crate::format::count(limits.cpus, "core"), probe.system)
}

/// The GPUs of a lease by their names, if the place has any.
fn visible(names: &[String], lease: &Lease) -> Option<Vec<String>> {
    let of_lease = lease.gpus.iter().filter_map(|gpu| names.get(*gpu).cloned());
    (!names.is_empty()).then(|| of_lease.collect())
}

fn listing(jobs: &[SpooledJob]) -> HashMap<Key, There> {
    let there = |state| match state {
        SpoolState::Running => There::Running,
        SpoolState::Recorded => There::Recorded,
        SpoolState::Ended => There::Ended,
    };
    jobs.iter().map(|job| (job.key, there(job.state))).collect()
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
