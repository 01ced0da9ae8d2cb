//! A job on a machine that shares no folder with the submitting one: its specification, needed records, and result go
//! through a remote store.

use std::{io, path::Path, thread, time::Duration};

use fs_err as fs;

use super::{Ended, invalid, job};
use crate::{
    hosts::each_folder,
    plan::SerializedJob,
    run::{
        RunFolder, Summary,
        exchange::{Exchange, SentJob, needed},
        job_specs,
    },
    store::Store,
};

/// Bytes of the end of a job's output that are kept.
const LOG: usize = 1 << 18;
/// Attempts to bring a record there, with growing pauses.
const ATTEMPTS: u32 = 5;
/// The first of these pauses.
const FIRST_DELAY: Duration = Duration::from_secs(2);

/// Takes a job, runs it in a results folder of this machine alone, and uploads its record and its log. Relative paths
/// of inputs start from the current folder, which has the project.
///
/// # Errors
/// The remote store does not respond or has no such job, or the results folder cannot be used.
pub fn job_from_afar(results: &Path, exchange: &dyn Exchange, sent: &SentJob) -> io::Result<Ended> {
    let remote_error = |reason: String| io::Error::other(format!("{}: {reason}", exchange.name()));
    let key = sent.key;
    // An earlier submission of the job has a result.
    if exchange.has(key).map_err(remote_error)? {
        return Ok(Ended::Ran(Summary { cached: 1, ..Summary::default() }));
    }
    let text = exchange.text(&sent.spec()).map_err(remote_error)?;
    let text = text.ok_or_else(|| remote_error(format!("it has no job {}", key.short())))?;
    let mut spec: SerializedJob = serde_json::from_slice(&text)?;
    if spec.key != key {
        return Err(invalid(format!("the specification of {} is that of {}", key.short(), spec.key.short())));
    }
    if let Some(project) = &mut spec.project {
        let project_there = std::mem::replace(project, std::env::current_dir()?);
        let folder_here = project.clone();
        each_folder(&mut spec, |folder| {
            let inner = Path::new(&*folder).strip_prefix(&project_there).ok().filter(|_| !Path::new(&*folder).is_dir());
            if let Some(path) = inner.and_then(|inner| folder_here.join(inner).to_str().map(str::to_owned)) {
                *folder = path;
            }
            Ok::<(), io::Error>(())
        })?;
    }
    let store = Store::open(results).map_err(io::Error::other)?;
    store.create()?;
    for need in needed(&spec) {
        if !store.contains(need) && !exchange.bring(&store, need).map_err(remote_error)? {
            return Ok(Ended::Blocked(need));
        }
    }
    let folder = RunFolder::named(results, &sent.run);
    fs::create_dir_all(folder.path())?;
    job_specs::write_one(&spec, folder.path())?;
    let ended = job(results, &sent.run, 0, key, true);
    let pushed = if store.contains(key) { send(exchange, &store, sent) } else { Ok(()) };
    // A missing log is ignored: only the record is required, and the log is for people and for failures.
    let log = fs::read(folder.log(key)).unwrap_or_default();
    let messages = fs::read(folder.part(key)).unwrap_or_default();
    let words = exchange.put_text(&sent.log(), &log[log.len().saturating_sub(LOG)..]);
    let words = words.and_then(|()| exchange.put_text(&sent.said(), &messages));
    pushed.and(words).map_err(remote_error)?;
    ended
}

/// Brings the record there. A pause of the network costs time only.
fn send(exchange: &dyn Exchange, store: &Store, sent: &SentJob) -> Result<(), String> {
    let mut pause = FIRST_DELAY;
    for _ in 1..ATTEMPTS {
        if exchange.send(store, sent.key).is_ok() {
            return Ok(());
        }
        thread::sleep(pause);
        pause *= 2;
    }
    exchange.send(store, sent.key)
}
