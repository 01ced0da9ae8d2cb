//! The thread that runs the queue: it receives events of hosts and jobs, and carries out the orders of the queue.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant, SystemTime},
};

use super::{
    LOCAL, local,
    members::{self, States},
    operations,
    place::PlaceId,
    placements::{Placement, Where},
    queue::{Collected, Order, Sent, There},
    shared::{Link, Shared, State, Streams, lock},
};
use crate::{
    hosts::{HostEvent, Probe, SpoolState, SpooledJob},
    recipe::executor::ssh::SshHost,
    record::Key,
    run::slots::{Lease, Limits},
    store::{Claim, Pending},
};

/// Interval at which the queue gets the present time.
const TICK: Duration = Duration::from_millis(200);
/// Interval of slower looks: at the list of hosts, and at jobs of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Something for the agent.
#[derive(Debug)]
pub(super) enum Input {
    /// The queue has changed.
    Wake,
    /// A host has reported an event.
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

/// Result of claiming a job.
enum Claimed {
    Yes,
    Busy,
    Done,
}

/// The thread.
pub(super) struct Agent {
    pub(super) shared: Arc<Shared>,
    looked: Instant,
    pub(super) members: Option<SystemTime>,
    pub(super) states: Option<States>,
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
            if now >= self.looked + POLL_INTERVAL {
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
            Input::Host(place, event) => of_host(state, place, event),
            Input::Sent { key, place, sent } => {
                if let Sent::Never(_) | Sent::Full | Sent::Refused = sent {
                    let name = &state.queue.places[place].name;
                    Placement::remove(&self.shared.opening.results, key, name);
                }
                state.queue.sent(key, place, sent, now);
                let_go(state, key);
            }
            Input::Collected { key, place, collected, claim } => {
                if let Some(task) = state.tasks.get_mut(&key) {
                    task.claim = claim;
                }
                state.queue.collected(key, place, collected, now);
                let_go(state, key);
            }
            Input::Listed { place, jobs } => state.queue.listed(place, &listing(&jobs), now),
            Input::Ended { key, word } => {
                let Some(place) = state.place(LOCAL) else { return };
                if let Some(task) = state.tasks.get_mut(&key) {
                    (task.process, task.word) = (None, word);
                }
                let end = if self.shared.store.contains(key) { There::Recorded } else { There::Ended };
                state.queue.ended(key, place, end, now);
            }
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
            // The engine of the job claims it.
            Link::Local(_) if state.tasks.get(&key).is_some_and(|task| task.claim.is_some()) => Claimed::Yes,
            Link::Local(_) if shared.store.contains(key) => Claimed::Done,
            Link::Local(_) if !shared.store.is_free(key) => Claimed::Busy,
            Link::Local(_) => Claimed::Yes,
            Link::Host(_) => self.claim(state, key),
        };
        match claimed {
            Claimed::Busy => return answer(Sent::Busy),
            Claimed::Done => return answer(Sent::Done),
            // A process that has ended placed the job on another place, which is polled soon.
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
                        // If the placement cannot be written, a later process waits for the job's record.
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
                Err(error) => state.news.push(format!("cannot write the messages of {}: {error}", key.short())),
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
            let result = operations::Found { key, place, log, output, damaged };
            operations::collect(shared, &connection, &result, claim);
        });
    }

    /// Claims a job; the claim is held while the job is on a host.
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

    /// Appends the output of a job on a host to its log on this machine while the job runs.
    fn pull_logs(&self, state: &State, key: Key, place: PlaceId) {
        let Some(connection) = state.connection(place) else { return };
        let streams = state.tasks.get(&key).and_then(|task| task.streams.as_ref());
        let Some(streams) = streams.filter(|streams| streams.place == place) else { return };
        let log = Arc::downgrade(&streams.log);
        self.shared.beside_for_long(move |_| operations::pull(&connection, key, &log));
    }
}

/// The resources of a host that jobs may use.
fn limits(host: &SshHost, probe: &Probe) -> Limits {
    let cpus = host.cpus.unwrap_or(probe.cpus);
    let gpus = host.gpus.map_or(probe.gpus.len(), |gpus| gpus.min(probe.gpus.len()));
    let gpu_memory = probe.gpu_memory.clone();
    Limits { cpus, gpus, gpu_memory, memory: host.memory.unwrap_or(probe.memory), jobs: Limits::most_jobs(cpus, gpus) }
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
    let state_of = |state| match state {
        SpoolState::Running => There::Running,
        SpoolState::Recorded => There::Recorded,
        SpoolState::Ended => There::Ended,
    };
    jobs.iter().map(|job| (job.key, state_of(job.state))).collect()
}

/// Gives up the waiting jobs if no place can be used until a user resolves a problem.
pub(super) fn give_up(state: &mut State) {
    let places = || state.queue.places.iter().filter(|place| !place.leaving);
    let reasons: Vec<&str> = places().map_while(|place| place.refused()).collect();
    if reasons.len() == places().count() && state.queue.is_waiting() {
        let reason = format!("{}{}", super::NOT_STARTED, reasons.join("; "));
        state.queue.give_up(&reason);
    }
}

/// Lets other processes have a job that has ended without a record, or waits.
fn let_go(state: &mut State, key: Key) {
    if !state.queue.has(key)
        && let Some(task) = state.tasks.get_mut(&key)
    {
        (task.claim, task.streams) = (None, None);
    }
}

/// Takes note of an event of a host.
fn of_host(state: &mut State, place: PlaceId, event: HostEvent) {
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
            give_up(state);
        }
        HostEvent::Said { key, at: _, line } => {
            let name = &state.queue.places[place].name;
            let streams = state.tasks.get_mut(&key).and_then(|task| task.streams.as_mut());
            if let Some(streams) = streams.filter(|streams| streams.place == place)
                && let Err(error) = streams.said.say(&line, name)
            {
                state.news.push(format!("cannot write the messages of {}: {error}", key.short()));
            }
        }
        HostEvent::Ended { key, has_record } => {
            let end = if has_record { There::Recorded } else { There::Ended };
            state.queue.ended(key, place, end, now);
        }
        HostEvent::Note(sentence) => state.news.push(sentence),
    }
}
