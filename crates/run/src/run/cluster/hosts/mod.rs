//! Hosts that are reached by SSH, and this machine beside them, as a batch system whose queue is in this process.
//!
//! `queue.rs` decides the place of each job, and `agent.rs` is the thread that carries the decisions out, with the state of `shared.rs` and
//! the slow checks of `looks.rs`. `operations.rs` has the work on hosts, and `local.rs` starts jobs on this machine. `placements.rs` has
//! the files by which the next process finds the jobs of a killed process, and `members.rs` the file by which hosts join and leave.
//!
//! A job is claimed in the store of this machine while it is on a host, so that no other sweep runs it; its record is
//! fetched into that store and then removed from the host.

mod agent;
mod checks;
mod local;
mod looks;
pub mod members;
mod operations;
mod place;
mod placements;
mod queue;
mod shared;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc::channel},
    thread,
    time::Instant,
};

use self::{
    agent::{Agent, Input},
    members::Members,
    place::{NOWHERE, PlaceId},
    placements::{Placement, Where},
    queue::Entry,
    shared::{Shared, State, Streams, Task, lock},
};
use super::{
    Allocated, BatchId, BatchJob, CancelScope, Cluster, EndCause, Ending, Opening, QueuedJob, QueuedState, Refusal,
    Work, job_tag::JobTag,
};
use crate::{
    host::{finding::Finding, threads::refused},
    hosts::Cleaned,
    recipe::executor::ssh::{Ssh, SshHost},
    record::Key,
    run::RunFolder,
    store::{Claim, Store},
};

/// The name of this machine among the places.
const LOCAL: &str = "this machine";
/// Beginning of a word for the end of a job that was not started.
const NOT_STARTED: &str = "not started: ";

/// The hosts of a sweep.
#[derive(Debug)]
pub(super) struct Hosts {
    opening: Opening,
    settings: Ssh,
    /// `None` until this process attends to a run.
    running: Mutex<Option<Running>>,
}

/// A run that this process attends to.
#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    agent: Option<thread::JoinHandle<()>>,
}

impl Hosts {
    pub(super) fn new(opening: Opening, settings: Ssh) -> Self {
        Self { opening, settings, running: Mutex::new(None) }
    }

    /// The state of the run, if this process attends to one.
    fn with<T>(&self, act: impl FnOnce(&Shared, &mut State) -> T) -> Option<T> {
        let running = lock(&self.running);
        let shared = &running.as_ref()?.shared;
        let answer = act(shared, &mut shared.state());
        shared.tell(Input::Wake);
        Some(answer)
    }
}

impl Cluster for Hosts {
    fn system(&self) -> &'static str {
        "SSH"
    }

    fn starts_jobs_itself(&self) -> bool {
        true
    }

    fn attend(&self) -> io::Result<()> {
        let mut running = lock(&self.running);
        if running.is_some() {
            return Ok(());
        }
        let (sender, receiver) = channel();
        let results = std::path::absolute(&self.opening.results)?;
        let opening = Opening { results, ..self.opening.clone() };
        let shared = Arc::new(Shared::new(opening, self.settings.clone(), sender)?);
        let members = Members::read(&shared.opening.results)?;
        let mut state = shared.state();
        for host in members.of(&self.settings.hosts) {
            shared.open_host(&mut state, host)?;
        }
        for host in self.settings.hosts.iter().filter(|host| members.removed.contains(&host.host)) {
            let name = &host.host;
            state.news.push(format!("{name} is not used: it was removed; `sweep hosts add {name}` adds it again"));
        }
        if self.settings.local {
            Shared::open_local(&mut state);
        }
        take_over(&shared, &mut state);
        drop(state);
        let agent = Agent::new(Arc::clone(&shared));
        let agent = thread::Builder::new().name("hosts".into()).spawn(move || agent.run(&receiver)).map_err(refused)?;
        *running = Some(Running { shared, agent: Some(agent) });
        Ok(())
    }

    fn news(&self) -> Vec<String> {
        self.with(|_, state| std::mem::take(&mut state.news)).unwrap_or_default()
    }

    fn unavailable(&self) -> Option<&'static str> {
        let members = Members::read(&self.opening.results).unwrap_or_default();
        let none = members.of(&self.settings.hosts).is_empty() && placed_hosts(&self.opening).is_empty();
        none.then_some(
            "there is no host; name hosts with `--hosts box1,box2`, in the sweep file (`executor: { ssh: { hosts: [box1] } }`), or with \
             `sweep hosts add box1`",
        )
    }

    fn allocated(&self) -> Option<Allocated> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok().filter(|number| *number > 0);
        let cpus = usize::try_from(number(local::CPUS)?).ok();
        Some(Allocated { cpus, memory: number(local::MEMORY) })
    }

    fn jobs_name(&self) -> &str {
        &self.opening.jobs_name
    }

    fn cancel_command(&self) -> String {
        format!("sweep --results {} hosts cancel", self.opening.results.display())
    }

    fn submit(&self, job: &BatchJob<'_>) -> Result<BatchId, Refusal> {
        let Work::Job { key, run, at } = job.work else {
            return Err(Refusal::No("hosts run single jobs, not pilot jobs".to_owned()));
        };
        let wants = shared::wants(&self.opening, run, at).map_err(|error| Refusal::No(error.to_string()))?;
        let submission = job.tag.parse::<JobTag>().map_or(1, |tag| tag.submission);
        let id = BatchId::from(format!("{}.{submission}", key.short()));
        self.with(|_, state| {
            let task = task(id.clone(), job.tag.clone(), run.to_owned(), at, job.output.clone());
            // The events of an earlier submission may still arrive, so its claim is kept.
            let claim = state.tasks.remove(&key).and_then(|earlier| earlier.claim);
            state.tasks.insert(key, Task { claim, ..task });
            let after = job.after.to_vec();
            state.queue.submit(Entry { id: id.clone(), tag: job.tag.clone(), key, wants, after });
        })
        .ok_or_else(|| Refusal::No("nothing attends to the hosts".to_owned()))?;
        Ok(id)
    }

    fn poll(&self) -> Result<Vec<QueuedJob>, String> {
        let own = self.with(|_, state| {
            let jobs = state.queue.all();
            let keys = state.tasks.keys().copied().collect::<Vec<Key>>();
            (jobs, keys)
        });
        let (mut jobs, keys) = own.unwrap_or_default();
        let other_placements =
            Placement::all(&self.opening.results).into_iter().filter(|other| !keys.contains(&other.key));
        jobs.extend(other_placements.map(|other| QueuedJob {
            reason: other.place.name().to_owned(),
            id: other.id,
            state: QueuedState::Running,
            tag: other.tag,
            orphaned: false,
        }));
        Ok(jobs)
    }

    fn cancel(&self, ids: &[BatchId], scope: CancelScope) -> Result<(), String> {
        self.with(|_, state| state.queue.cancel(ids, scope));
        Ok(())
    }

    fn examine(&self, gpus: usize) -> Vec<Finding> {
        let members = Members::read(&self.opening.results).unwrap_or_default();
        checks::examine(&Store::new(&self.opening.results), &members.of(&self.settings.hosts), gpus)
    }

    /// Each host has its own store.
    fn has_shared_folder(&self) -> bool {
        false
    }

    fn why_pending(&self, reason: &str) -> Option<&'static str> {
        (reason == NOWHERE).then_some("add a host that has them (`sweep hosts add`), or change `resources`")
    }

    fn ending(&self, _: &BatchId, word: &str) -> Ending {
        let number = |beginning: &str| word.strip_prefix(beginning)?.parse::<i32>().ok();
        let cause = match (number(local::EXIT), number(local::SIGNAL)) {
            (Some(code), _) => EndCause::Exit(code),
            (None, Some(signal)) => EndCause::Signal(signal),
            _ if word.is_empty() => EndCause::Other("no result".to_owned()),
            _ => match (word.strip_prefix(NOT_STARTED), word.strip_prefix(queue::LOST)) {
                (Some(reason), _) => EndCause::Impossible(reason.to_owned()),
                (None, Some(host)) => EndCause::Lost(format!("{host} no longer has it")),
                (None, None) => EndCause::Other(word.to_owned()),
            },
        };
        Ending { cause, node: String::new(), reason: String::new() }
    }

    fn remembered(&self, id: &BatchId) -> Option<QueuedState> {
        self.with(|_, state| state.queue.state(id)).flatten()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let Some(mut running) = lock(&self.running).take() else { return };
        running.shared.tell(Input::End);
        if let Some(agent) = running.agent.take() {
            // The agent has no result.
            let _ = agent.join();
        }
    }
}

/// Jobs that were ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Number of ended jobs.
    pub jobs: usize,
    /// Errors of hosts that could not be reached.
    pub errors: Vec<String>,
}

/// Ends all jobs of a results folder that processes have left on hosts and on this machine. Their files stay there for
/// the next run.
///
/// # Errors
/// The errors of the results folder.
pub fn cancel(results: &Path) -> io::Result<Ended> {
    let store = Store::new(results);
    let mut ended = Ended::default();
    let mut by_host: Vec<(SshHost, Vec<Key>)> = Vec::new();
    for placement in Placement::all(results) {
        match placement.place {
            Where::Local { .. } => {
                ended.jobs += usize::from(local::is_alive(&placement.place));
                local::stop(&placement.place, CancelScope::All);
            }
            Where::Host(host) => match by_host.iter_mut().find(|(known, _)| *known == host) {
                Some((_, keys)) => keys.push(placement.key),
                None => by_host.push((host, vec![placement.key])),
            },
        }
    }
    for (host, keys) in by_host {
        match operations::stop_all(&store, &host, &keys)? {
            Ok(()) => ended.jobs += keys.len(),
            Err(error) => ended.errors.push(error.to_string()),
        }
    }
    Ok(ended)
}

/// Removes the files that no run needs anymore from a host.
///
/// # Errors
/// The errors of the results folder, and the message for a host that cannot be reached or is in use.
pub fn clean_host(results: &Path, host: &SshHost) -> io::Result<Cleaned> {
    let store = Store::new(results);
    let connection = operations::connect(&store, host)?.map_err(io::Error::other)?;
    connection.clean().map_err(io::Error::other)
}

fn task(id: BatchId, tag: String, run: String, at: u64, output: PathBuf) -> Task {
    Task { id, tag, run, at, output, claim: None, streams: None, process: None, word: String::new(), damaged: 0 }
}

/// The hosts on which jobs of earlier processes are.
fn placed_hosts(opening: &Opening) -> Vec<Where> {
    Placement::all(&opening.results).into_iter().map(|placement| placement.place).collect()
}

/// True if a placement file names a place for a job that differs from the queue's.
fn is_elsewhere(shared: &Shared, state: &State, key: Key) -> bool {
    let mut files = Placement::of(&shared.opening.results, key).into_iter();
    files.any(|file| match (&file.place, state.place(file.place.name())) {
        (Where::Local { .. }, _) => local::is_alive(&file.place),
        (Where::Host(_), Some(place)) => !state.queue.is_on(key, place),
        (Where::Host(_), None) => true,
    })
}

/// Takes over the jobs that were placed by processes that have ended, and so hold no claims anymore.
fn take_over(shared: &Arc<Shared>, state: &mut State) {
    for placement in Placement::all(&shared.opening.results) {
        let (key, name) = (placement.key, placement.place.name());
        let is_known = state.place(name).is_some_and(|place| state.queue.is_on(key, place));
        let over = state.tasks.contains_key(&key) && !state.queue.has(key);
        if is_known || over || state.queue.has(key) && !state.queue.is_free(key) {
            continue;
        }
        if let Err(error) = take_over_one(shared, state, &placement) {
            state.news.push(format!("{} on {name}: {error}", key.short()));
            Placement::remove(&shared.opening.results, key, name);
        }
    }
}

/// A job that another process has placed.
fn take_over_one(shared: &Arc<Shared>, state: &mut State, placement: &Placement) -> io::Result<()> {
    let (key, results) = (placement.key, &shared.opening.results);
    let is_local = matches!(placement.place, Where::Local { .. });
    let done = shared.store.contains(key);
    let mut claim = state.tasks.get_mut(&key).and_then(|task| task.claim.take());
    if is_local {
        // The engine of a local job holds the claim while it runs.
        if done || !local::is_alive(&placement.place) {
            Placement::remove(results, key, LOCAL);
            return Ok(());
        }
    } else if !done && claim.is_none() {
        match shared.store.claim(key).map_err(io::Error::other)? {
            Claim::Miss(pending) => claim = Some(pending),
            Claim::Hit(_) => {}
            // Another live process waits for the job.
            Claim::Busy => return Ok(()),
        }
    }
    let place = place_of(shared, state, &placement.place)?;
    let process = is_local.then(|| placement.place.clone());
    if let Some(task) = state.tasks.get_mut(&key) {
        // The job was submitted again, so its events and its log are read from the beginning.
        let streams = if is_local { None } else { Some(Streams::begin(&shared.opening, &task.run, key, place)?) };
        (task.claim, task.streams, task.process) = (claim, streams, process.clone());
        state.queue.attach(key, place);
    } else {
        let entry = shared.entry(placement)?;
        let folder = RunFolder::named(results, &placement.run);
        let output = folder.path().join("ssh").join(format!("{}.txt", key.short()));
        let streams = if is_local { None } else { Some(Streams::resume(&shared.opening, placement, place)?) };
        let task = task(entry.id.clone(), entry.tag.clone(), placement.run.clone(), placement.at, output);
        state.tasks.insert(key, Task { claim, streams, process: process.clone(), ..task });
        state.queue.adopt(entry, place);
    }
    if let Some(process) = process {
        state.queue.sent(key, place, queue::Sent::There(queue::There::Running), Instant::now());
        shared.beside_for_long(move |shared| {
            local::watch(&process);
            shared.tell(Input::Ended { key, word: String::new() });
        });
    }
    if done {
        state.queue.finish(key);
    }
    Ok(())
}

/// Returns the place of a job of another process. A place that does not belong to the run gets no new jobs.
fn place_of(shared: &Shared, state: &mut State, of: &Where) -> io::Result<PlaceId> {
    if let Some(place) = state.place(of.name()) {
        return Ok(place);
    }
    let place = match of {
        Where::Local { .. } => Shared::open_local(state),
        Where::Host(host) => shared.open_host(state, host.clone())?,
    };
    state.queue.places[place].leaving = true;
    Ok(place)
}
