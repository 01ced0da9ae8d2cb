//! Work on hosts, each operation in a separate thread: sending and starting a job, fetching its results.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak, mpsc::channel},
    thread,
    time::Duration,
};

use super::{
    NOT_STARTED,
    agent::Input,
    place::PlaceId,
    placements::{Log, Placement, append},
    queue::{Collected, Sent, There},
    shared::{Shared, lock},
};
use crate::{
    host::project_of,
    hosts::{
        self, Connection, HostError, HostEvent, Hosted, Probe, Project, StartJob, Started, Stop, Submitter, Target,
        declared_env,
    },
    plan::{Code, CodeFile, Digests, SerializedJob, Site},
    recipe::{ResourceCount, executor::ssh::SshHost},
    record::{FILE_ELSEWHERE, Key, ReadSet, text_path},
    run::{RunFolder, cluster::CancelScope, job_specs, slots::Lease},
    store::{Pending, Store, TransferError},
};

/// Interval at which the log of a running job is fetched.
const LOGS: Duration = Duration::from_secs(1);
/// Time that a job's engine has to end after SIGTERM, besides the grace of its program.
const KILL_AFTER: Duration = Duration::from_secs(30);
/// So often a record is fetched that does not match its digests.
const DAMAGED: u32 = 3;

/// A job to send.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) placement: Placement,
    pub(super) lease: Lease,
    pub(super) gpus: Option<Vec<String>>,
}

/// A job to fetch.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) key: Key,
    pub(super) place: PlaceId,
    pub(super) log: Option<Arc<Mutex<Log>>>,
    pub(super) output: PathBuf,
    pub(super) damaged: u32,
}

/// Sends the files that a job needs, and starts it.
pub(super) fn send(shared: &Shared, connection: &Connection, sending: &Sending) -> Sent {
    let never = |reason: String| Sent::Never(format!("{NOT_STARTED}{reason}"));
    let hosted = match hosted(shared, sending) {
        Ok(hosted) => hosted,
        Err(reason) => return never(reason),
    };
    let placement = &sending.placement;
    // The placement is written first, so that the next process knows it.
    if let Err(error) = placement.write(&shared.opening.results) {
        return never(error.to_string());
    }
    let job = StartJob {
        key: placement.key,
        tag: placement.tag.clone(),
        env: declared_env(&hosted.spec),
        project: hosted.shipment.project.digest().to_owned(),
        spec: hosted.spec,
        gpus: sending.gpus.clone(),
    };
    let start = || connection.prepare(&hosted.shipment).and_then(|_| connection.start(&job));
    // Between both requests, another process may have cleaned the host.
    let started = match start() {
        Err(HostError::Missing { .. }) => start(),
        started => started,
    };
    match started {
        Ok(Started::Now | Started::Running { .. }) => Sent::There(There::Running),
        Ok(Started::Over { has_record: true }) => Sent::There(There::Recorded),
        Ok(Started::Over { has_record: false }) => Sent::There(There::Ended),
        Err(error) if error.is_away() => Sent::Unsure,
        Err(error) if error.is_full() => {
            shared.tell(Input::News(error.to_string()));
            Sent::Full
        }
        Err(error @ (HostError::Here(_) | HostError::Project(_))) => never(error.to_string()),
        Err(error) if error.is_lasting() => Sent::Refused,
        Err(error) => never(error.to_string()),
    }
}

/// The specification and the files of a job as they go to a host.
fn hosted(shared: &Shared, sending: &Sending) -> Result<Hosted, String> {
    let Placement { run, at, .. } = &sending.placement;
    let folder = RunFolder::named(&shared.opening.results, run);
    let mut spec = job_specs::read_at(folder.path(), *at).map_err(|error| error.to_string())?;
    spec.resources.cpus = Some(ResourceCount::whole(sending.lease.cpus));
    let project = project(shared, &spec)?;
    is_planned(shared, &spec, &project)?;
    hosts::hosted(spec, &project, &shared.store, &shared.folder).map_err(|error| error.to_string())
}

/// The files of a job's project, which are collected once.
fn project(shared: &Shared, spec: &SerializedJob) -> Result<Project, String> {
    if !spec.is_program() {
        return Ok(Project::empty());
    }
    let folder = spec.project.clone().unwrap_or_else(|| project_of(&shared.folder));
    let mut projects = lock(&shared.projects);
    if let Some(project) = projects.get(&folder) {
        return Ok(project.clone());
    }
    let collected = Project::collect(&folder, &shared.opening.results, &shared.settings.sync);
    let project = collected.map_err(|error| error.to_string())?;
    projects.insert(folder, project.clone());
    Ok(project)
}

/// Fetches the results of a job, and removes them from the host once they are stored here.
pub(super) fn collect(shared: &Arc<Shared>, connection: &Connection, found: &Found, claim: Pending) {
    let Found { key, place, .. } = *found;
    let tell = |collected, claim| shared.tell(Input::Collected { key, place, collected, claim });
    if let Some(log) = &found.log {
        // A result must not be lost because its log cannot be fetched.
        let _ = pull_once(connection, key, &lock(log));
    }
    let later = |reason: String| {
        shared.tell(Input::News(format!("the result of {} on {}: {reason}", key.short(), connection.target().host)));
        Collected::Later
    };
    let file = match shared.store.beside().and_then(tempfile::NamedTempFile::new_in) {
        Ok(file) => file,
        Err(error) => return tell(later(error.to_string()), Some(claim)),
    };
    match connection.fetch(key, file.path()) {
        Ok(_) => {}
        Err(HostError::NoRecord { .. }) => {
            keep_output(connection, key, &found.output);
            if let Err(error) = connection.writes()
                && error.is_full()
            {
                // The failure is not caused by the job, and other places may have room.
                shared.tell(Input::News(error.to_string()));
                forget(shared, connection, key);
                return tell(Collected::Full, Some(claim));
            }
            tell(Collected::Nothing(String::new()), Some(claim));
            return forget(shared, connection, key);
        }
        Err(error) if error.is_away() => return tell(Collected::Away, Some(claim)),
        Err(error) => return tell(later(error.to_string()), Some(claim)),
    }
    let stored = std::fs::File::open(file.path()).map_err(TransferError::from).and_then(|archive| {
        let is_wanted = |set: &ReadSet| is_of_project(shared, key, set, &connection.target().host);
        shared.store.import_claimed(std::io::BufReader::new(archive), claim, is_wanted)
    });
    match stored {
        Ok(()) => tell(Collected::Stored, None),
        Err(TransferError::Unwanted(reason)) => tell(Collected::Nothing(reason), None),
        Err(error @ (TransferError::Damaged(..) | TransferError::Foreign(_))) if found.damaged + 1 >= DAMAGED => {
            tell(Collected::Nothing(error.to_string()), None);
        }
        Err(error @ (TransferError::Damaged(..) | TransferError::Foreign(_))) => {
            if let Some(task) = shared.state().tasks.get_mut(&key) {
                task.damaged += 1;
            }
            return tell(later(error.to_string()), None);
        }
        Err(error) => return tell(later(error.to_string()), None),
    }
    forget(shared, connection, key);
}

/// Checks that a job has read the files that were sent. The files of a job that an earlier process has sent are
/// compared at the end of the run, with all others.
fn is_of_project(shared: &Shared, key: Key, set: &ReadSet, host: &str) -> Result<(), String> {
    let place = shared.state().tasks.get(&key).map(|task| (task.run.clone(), task.at));
    let Some((run, at)) = place else { return Ok(()) };
    let folder = RunFolder::named(&shared.opening.results, &run);
    let spec = job_specs::read_at(folder.path(), at).map_err(|error| error.to_string())?;
    let folder = spec.project.clone().unwrap_or_else(|| project_of(&shared.folder));
    let Some(project) = lock(&shared.projects).get(&folder).cloned() else { return Ok(()) };
    for (name, file) in set.files.iter().filter(|(name, _)| !name.starts_with(FILE_ELSEWHERE)) {
        if project.file(&text_path(name)).is_none_or(|digest| digest != file.digest) {
            return Err(format!("it read another `{name}` on {host} than was sent there; run again"));
        }
    }
    Ok(())
}

/// Checks that the sent files are the files with which a job was planned.
fn is_planned(shared: &Shared, spec: &SerializedJob, project: &Project) -> Result<(), String> {
    let (Some(folder), Some(code)) = (&spec.project, &spec.identity.code) else { return Ok(()) };
    let base = spec.identity.base_key().map_err(|error| error.to_string())?;
    let mut digests = Digests::open(shared.store.digests());
    let site = Site::of(spec.place.clone(), &spec.values, folder);
    let code_there = Code::of_project(folder.clone(), site);
    let (is_planned, planned_code) = shared.store.manifests().is_planned(base, &code_there, Some(code), &mut digests);
    let is_sent = |file: &CodeFile| {
        let digest = project.file(&text_path(&file.path));
        digest.is_none_or(|digest| digest == file.digest)
    };
    if !is_planned || !planned_code.files.iter().all(is_sent) {
        return Err("the code of the project changed after the job was planned; run again".to_owned());
    }
    Ok(())
}

/// Removes the files that a job has left on a host.
pub(super) fn forget(shared: &Shared, connection: &Connection, key: Key) {
    // An unreachable host keeps the files until the next run finds them.
    if connection.forget(key).is_ok() {
        Placement::remove(&shared.opening.results, key, &connection.target().host);
    }
}

/// Ends a job.
pub(super) fn stop(connection: &Connection, key: Key, scope: CancelScope) {
    let how = match scope {
        CancelScope::Pending => return,
        CancelScope::All => Stop::End { kill_after: KILL_AFTER },
        CancelScope::Interrupt => Stop::Interrupt,
    };
    // The request is repeated after a loss of the connection.
    let _ = connection.cancel(&[key], how);
}

/// Appends the output of a job to its log on this machine, until `log` is dropped.
pub(super) fn pull(connection: &Connection, key: Key, log: &Weak<Mutex<Log>>) {
    loop {
        thread::sleep(LOGS);
        let Some(log) = log.upgrade() else { return };
        // Output that cannot be fetched now is fetched in the next round.
        let _ = pull_once(connection, key, &lock(&log));
    }
}

fn pull_once(connection: &Connection, key: Key, log: &Log) -> Result<(), HostError> {
    loop {
        let bytes = connection.log(key, log.here())?;
        if bytes.is_empty() {
            return Ok(());
        }
        append(&log.path, &bytes).map_err(|error| HostError::Here(error.to_string()))?;
    }
}

/// Appends the output of the job's own engine to the file `path`, to show the reason for the missing result.
fn keep_output(connection: &Connection, key: Key, path: &Path) {
    // A failure is ignored, because the output is only for people.
    let _ = connection.output(key).map(|bytes| append(path, &bytes));
}

/// Asks jobs that earlier processes have left on a host to end.
pub(super) fn stop_all(store: &Store, host: &SshHost, keys: &[Key]) -> io::Result<Result<(), HostError>> {
    let connection = connect(store, host)?;
    Ok(connection.and_then(|connection| connection.cancel(keys, Stop::End { kill_after: KILL_AFTER })))
}

/// Connects to a host once.
pub(super) fn connect(store: &Store, host: &SshHost) -> io::Result<Result<Connection, HostError>> {
    Ok(connect_and_probe(store, host)?.map(|(connection, _)| connection))
}

/// Connects to a host once, and returns the connection with the host's probe.
pub(super) fn connect_and_probe(
    store: &Store,
    host: &SshHost,
) -> io::Result<Result<(Connection, Box<Probe>), HostError>> {
    let (sender, receiver) = channel();
    let tell = move |event| {
        let answer = match event {
            HostEvent::Connected(probe) => Ok(probe),
            HostEvent::Lost(error) => Err(error),
            _ => return,
        };
        // Only the first response is used.
        let _ = sender.send(answer);
    };
    let connection = Connection::open(target(host), submitter(store)?, tell)?;
    let connected = receiver.recv().map_err(io::Error::other)?;
    Ok(connected.map(|probe| (connection, probe)))
}

/// A host for `ssh`.
pub(super) fn target(host: &SshHost) -> Target {
    Target { host: host.host.clone(), options: host.options.clone(), workdir: host.workdir.clone() }
}

/// This side of connections.
pub(super) fn submitter(store: &Store) -> io::Result<Submitter> {
    Ok(Submitter { program: std::env::current_exe()?, store: store.id()? })
}
