//! State that the agent shares with the run and with the threads that do things.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::Sender},
    thread,
    time::Duration,
};

use super::{
    LOCAL,
    agent::Input,
    operations,
    place::{Place, PlaceId, Wants},
    placements::{Log, Placement, Said, Where},
    queue::{Entry, Queue},
};
use crate::{
    hosts::{Connection, Probe, Project},
    plan::{JobId, Plan, SerializedJob},
    recipe::executor::ssh::{Ssh, SshHost},
    record::Key,
    run::{
        RunFolder, allocation,
        cluster::{BatchId, Opening},
        job_specs,
    },
    store::{Pending, Store},
};

/// Timeout for work in progress at the end of the run.
const LAST: Duration = Duration::from_secs(5);

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

/// Everything that running a job takes.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: BatchId,
    pub(super) tag: String,
    pub(super) run: String,
    pub(super) at: u64,
    /// The file for the output of the job's own engine.
    pub(super) output: PathBuf,
    pub(super) claim: Option<Pending>,
    /// The job's journal and log, and the place that they are copied from.
    pub(super) streams: Option<Streams>,
    /// The job's process on this machine; `word` describes its end.
    pub(super) process: Option<Where>,
    pub(super) word: String,
    /// Number of the job's records that were damaged in transit.
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
    /// `None` once the host has left.
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

    /// Sends `input` to the agent, unless it has ended.
    pub(super) fn tell(&self, input: Input) {
        let _ = self.sender.send(input);
    }

    /// Runs `work` in a thread beside the agent, or in the present thread if none can be started.
    pub(super) fn beside(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        *self.busy.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let shared = Arc::clone(self);
        let all = move || {
            work(&shared);
            *shared.busy.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            shared.busy.1.notify_all();
        };
        // If no thread can be started, the work is lost, and the request to the host is repeated.
        let _ = thread::Builder::new().name("hosts".into()).spawn(all);
    }

    /// Waits for work in progress, for a limited time.
    pub(super) fn settle(&self) {
        let count = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.busy.1.wait_timeout_while(count, LAST, |count| *count > 0);
    }

    /// Adds a host to the run, and connects to it in the background.
    pub(super) fn open_host(&self, state: &mut State, host: SshHost) -> io::Result<PlaceId> {
        let place = state.queue.places.len();
        let sender = self.sender.clone();
        let tell = move |event| {
            // An agent that has ended needs no event.
            let _ = sender.send(Input::Host(place, event));
        };
        let connection = Connection::open(operations::target(&host), operations::submitter(&self.store)?, tell)?;
        state.queue.places.push(Place::new(host.host.clone()));
        state.links.push(Link::Host(HostLink { host, connection: Some(Arc::new(connection)), probe: None }));
        Ok(place)
    }

    /// Adds this machine to the places.
    pub(super) fn open_local(state: &mut State) -> PlaceId {
        let (limits, gpus) = allocation::share(None, None);
        let mut place = Place::new(LOCAL.to_owned());
        place.connect(limits);
        state.queue.places.push(place);
        state.links.push(Link::Local(gpus));
        state.queue.places.len() - 1
    }
}

impl Streams {
    /// Opens the streams of a job that begins on a place now.
    pub(super) fn begin(opening: &Opening, run: &str, key: Key, place: PlaceId) -> io::Result<Self> {
        let said = Said::begin(&opening.results, run, key)?;
        Ok(Self { place, said, log: Arc::new(Mutex::new(Log::begin(&opening.results, run, key))) })
    }

    /// Opens the streams of a job that an earlier process has placed.
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

impl Shared {
    /// Runs `work` that ends with its job; the end of the run does not wait for the work.
    pub(super) fn beside_for_long(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let shared = Arc::clone(self);
        // If no thread can be started, the process is polled like the process of an earlier sweep.
        let _ = thread::Builder::new().name("hosts".into()).spawn(move || work(&shared));
    }

    /// The entry of a job whose specification an earlier run has written.
    pub(super) fn entry(&self, placement: &Placement) -> io::Result<Entry> {
        let wants = wants(&self.opening, &placement.run, placement.at)?;
        let Placement { id, tag, key, .. } = placement.clone();
        Ok(Entry { id, tag, key, wants, after: Vec::new() })
    }
}

/// Returns the resources that a job needs, from its specification.
pub(super) fn wants(opening: &Opening, run: &str, at: u64) -> io::Result<Wants> {
    let spec = job_specs::read_at(RunFolder::named(&opening.results, run).path(), at)?;
    let alone = SerializedJob { needs: Vec::new(), lists: Vec::new(), ..spec };
    let plan = Plan::from_serialized([alone], &HashMap::new()).map_err(io::Error::other)?;
    Ok(Wants::of(plan.job(JobId::new(0))))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
