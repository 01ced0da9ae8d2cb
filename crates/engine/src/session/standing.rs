//! The jobs that are done, in the store and in the remote.

use std::{collections::HashSet, sync::Arc};

use super::{Request, SessionError};
use crate::{
    format::{clean, count, say},
    plan::{Digests, JobId, Plan},
    record::Key,
    remote::{Puller, Pushed, Remote},
    run::Standing,
    store::Store,
};

/// State before a run.
pub(super) struct Looked {
    /// The finished jobs.
    pub(super) standing: Standing,
    /// True if records may have come from a remote.
    has_remote: bool,
    /// The pull of the remote's records, if it continues.
    pub(super) puller: Option<Puller>,
}

impl Looked {
    /// True if the record of a job was computed with other code than the current one.
    pub(super) fn has_other_code(&self, plan: &Plan, store: &Store) -> bool {
        if !self.has_remote {
            return false;
        }
        let (mut manifests, mut digests) = (store.manifests(), Digests::open(store.digests()));
        let mut cached = plan.jobs().filter(|(id, _)| self.standing.cached[id.index()]);
        cached.any(|(id, _)| plan.has_other_code(id, &mut manifests, &mut digests))
    }
}

/// Finds the jobs that are done, including jobs with records in the remote. In a batch system, jobs cannot wait for
/// records that arrive later.
pub(super) fn look(
    request: &Request,
    store: &Store,
    plan: &Plan,
    selected: &HashSet<JobId>,
    in_batch: bool,
) -> Result<Looked, SessionError> {
    let standing = Standing::of(plan, store, selected)?;
    let Some(remote) = &request.remote else { return Ok(Looked { standing, has_remote: false, puller: None }) };
    let wanted = plan.jobs().filter(|(id, _)| selected.contains(id) && !standing.cached[id.index()]);
    let wanted: Vec<Key> = wanted.map(|(_, job)| job.key).collect();
    let puller = pull(remote, store, wanted, in_batch)?;
    Ok(Looked { standing: Standing::of(plan, store, selected)?, has_remote: true, puller })
}

/// Downloads records before a run, with messages. Returns the pull if it continues in parallel to the run, because
/// nothing has arrived for a while; with `all`, waits for it however slow it is.
fn pull(remote: &Arc<Remote>, store: &Store, keys: Vec<Key>, all: bool) -> Result<Option<Puller>, SessionError> {
    if keys.is_empty() {
        return Ok(None);
    }
    let puller = Puller::new(Arc::clone(remote), store.clone(), keys);
    let puller = puller.map_err(SessionError::io("cannot start a thread"))?;
    if all {
        puller.wait_for_all();
    }
    if puller.wait() {
        for notice in puller.finish()? {
            say(format_args!("{notice}"));
        }
        return Ok(None);
    }
    let open = count(puller.arriving().open(), "record");
    say(format_args!("note: {open} may still arrive from {}; jobs that need none of them start", clean(remote.name())));
    Ok(Some(puller))
}

/// Prints the results of a pull in parallel to a run, and of the uploads.
pub(super) fn report(remote: Option<&Remote>, puller: Option<Puller>, pushed: Option<&Pushed>) {
    match puller.map(Puller::finish) {
        Some(Ok(notices)) => notices.iter().for_each(|notice| say(format_args!("{notice}"))),
        // An error of the store also stops the run, which reports it in more detail.
        Some(Err(error)) => say(format_args!("warning: {}", clean(&error.to_string()))),
        None => {}
    }
    // The warning about a remote that was given up has been printed already.
    let pushed = pushed.filter(|_| remote.is_none_or(|remote| !remote.is_given_up()));
    if let Some(Pushed { left, broken: Some(error), .. }) = pushed {
        let (left, error) = (count(*left, "record"), clean(&error.to_string()).into_owned());
        say(format_args!(
            "warning: {left} could not be uploaded to the remote; `sweep cache push` tries again: {error}"
        ));
    }
}
