//! `--remote`, `sweep cache push` and `sweep cache pull`.

use clap::Args;

use crate::{
    error::{Error, Exit},
    plan::Key,
    remote::{Pulled, Pushed, Remote, RemoteError},
    store::Store,
    text::{clean, count, say},
};

/// Where records also are.
#[derive(Debug, Args)]
pub(super) struct RemoteArgs {
    /// An object store or a folder that also keeps records: `s3://BUCKET/FOLDER`, `gs://…`, `az://…` or `file:///FOLDER`.
    /// Credentials come from the environment.
    #[arg(long, value_name = "URL", env = "SWEEP_REMOTE", hide_env_values = true)]
    remote: Option<String>,
}

impl RemoteArgs {
    /// The remote, if there is one.
    pub(super) fn open(&self) -> Result<Option<Remote>, Error> {
        Ok(self.remote.as_deref().filter(|address| !address.is_empty()).map(Remote::open).transpose()?)
    }

    fn required(&self) -> Result<Remote, Error> {
        let missing = || Error::Unknown("say which remote: `--remote URL`, or the variable SWEEP_REMOTE".into());
        self.open()?.ok_or_else(missing)
    }
}

/// Brings records here before a run and says so. A remote that does not work is one warning, and `false`.
pub(super) fn pull(remote: &Remote, store: &Store, keys: &[Key]) -> Result<bool, Error> {
    if keys.is_empty() {
        return Ok(true);
    }
    let pulled = remote.pull(store, keys)?;
    report_refused(&pulled);
    if let Some(reason) = &pulled.broken {
        say(format_args!(
            "warning: {}; going on without it, and `sweep cache push` brings the results there later",
            clean(reason)
        ));
    }
    if pulled.added > 0 {
        say(format_args!("{} from {}", count(pulled.added, "record"), clean(remote.name())));
    }
    Ok(pulled.broken.is_none())
}

fn report_refused(pulled: &Pulled) {
    for (key, reason) in &pulled.refused {
        say(format_args!("warning: the remote's record {} is not used: {}", key.short(), clean(reason)));
    }
}

/// Says what did not get to the remote.
pub(super) fn report_pushed(pushed: &Pushed) {
    if let Some(error) = &pushed.broken {
        let left = count(pushed.left, "record");
        let error = clean(&error.to_string()).into_owned();
        say(format_args!("warning: {left} did not get to the remote; `sweep cache push` tries again: {error}"));
    }
}

/// `sweep cache push`: these records, or all.
pub(super) fn push_all(store: &Store, args: &RemoteArgs, keys: Option<Vec<Key>>) -> Result<Exit, Error> {
    let remote = args.required()?;
    let mut keys = match keys {
        Some(keys) => keys,
        None => store.keys().map_err(Error::io("cannot read the store"))?,
    };
    let there = remote.keys()?;
    let known = keys.len();
    keys.retain(|key| there.binary_search(key).is_err());
    for key in &keys {
        remote.push(store, *key)?;
    }
    let known = known - keys.len();
    say(format_args!("{} pushed, {known} there already", count(keys.len(), "record")));
    Ok(Exit::Done)
}

/// `sweep cache pull`: these records, or all.
pub(super) fn pull_all(store: &Store, args: &RemoteArgs, keys: Option<Vec<Key>>) -> Result<Exit, Error> {
    let remote = args.required()?;
    let mut keys = match keys {
        Some(keys) => keys,
        None => remote.keys()?,
    };
    let all = keys.len();
    keys.retain(|key| !store.contains(*key));
    let known = all - keys.len();
    let pulled = remote.pull(store, &keys)?;
    report_refused(&pulled);
    if let Some(reason) = pulled.broken {
        return Err(Error::Remote(RemoteError::Broken(remote.name().to_owned(), reason)));
    }
    let (added, missing, refused) = (count(pulled.added, "record"), pulled.missing, pulled.refused.len());
    say(format_args!("{added} pulled, {known} known already, {missing} not there, {refused} refused"));
    Ok(if refused == 0 { Exit::Done } else { Exit::Failure })
}
