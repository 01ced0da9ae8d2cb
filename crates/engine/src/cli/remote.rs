//! `--remote`, `sweep cache push` and `sweep cache pull`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use serde_json::json;
use sweep_job::units::parse_seconds;

use super::{
    answer::{FormatArgs, answer},
    cache::Refused,
};
use crate::{
    error::{Error, Exit},
    format::{count, say},
    record::Key,
    remote::{Options, Remote, RemoteError, Trusting, refused},
    run::Arriving,
    store::Store,
};

/// The remote.
#[derive(Debug, Args)]
pub(super) struct RemoteArgs {
    /// Object store or folder for shared records: `s3://BUCKET/FOLDER`, `gs://…`, `az://…` or `file:///FOLDER`. Credentials
    /// are read from the environment.
    #[arg(long, value_name = "URL", env = "SWEEP_REMOTE", hide_env_values = true)]
    remote: Option<String>,
    /// Sign uploaded records with the secret key in this file, created by `sweep cache keygen`.
    #[arg(long, value_name = "FILE", env = "SWEEP_REMOTE_KEY")]
    remote_key: Option<PathBuf>,
    /// Trusted signers of downloaded records: `any`, `own` (only `--remote-key`), or a file with one public key per line.
    #[arg(long, value_name = "any|own|FILE", env = "SWEEP_REMOTE_TRUST", default_value = "any", value_parser = trusting)]
    remote_trust: Trusting,
    /// Maximum duration of the transfer of one record, such as `90s` or `2h`; after that, the job runs locally.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = limit)]
    remote_timeout: Duration,
}

#[expect(clippy::unnecessary_wraps, reason = "as clap wants it")]
fn trusting(text: &str) -> Result<Trusting, String> {
    Ok(match text {
        "any" => Trusting::Any,
        "own" => Trusting::Own,
        file => Trusting::Listed(PathBuf::from(file)),
    })
}

fn limit(text: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(text).map_err(|error| format!("{error}; write `90s` or `2h`"))?;
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| "it must be more than 0 s".to_owned())
}

impl RemoteArgs {
    /// The remote, if there is one.
    pub(super) fn open(&self) -> Result<Option<Arc<Remote>>, Error> {
        let Self { remote, remote_key, remote_trust, remote_timeout } = self;
        let options = Options { key: remote_key.clone(), trust: remote_trust.clone(), timeout: *remote_timeout };
        let address = remote.as_deref().filter(|address| !address.is_empty());
        Ok(address.map(|address| Remote::open(address, &options)).transpose()?.map(Arc::new))
    }

    /// The remote; an error without one.
    pub(super) fn required(&self) -> Result<Arc<Remote>, Error> {
        let missing = || Error::Unknown("name the remote: `--remote URL`, or the variable SWEEP_REMOTE".into());
        self.open()?.ok_or_else(missing)
    }
}

/// `sweep cache push`: these records, or all.
pub(super) fn push_all(
    store: &Store,
    args: &RemoteArgs,
    keys: Option<Vec<Key>>,
    format: FormatArgs,
) -> Result<Exit, Error> {
    let remote = args.required()?;
    let mut keys = match keys {
        Some(keys) => keys,
        None => store.keys().map_err(Error::io("cannot read the store"))?,
    };
    let there = remote.keys()?;
    let known = keys.len();
    let notes = store.all_notes();
    let noted = keys.iter().filter(|key| there.binary_search(key).is_ok() && notes.contains_key(key)).count();
    keys.retain(|key| there.binary_search(key).is_err());
    for key in &keys {
        remote.push(store, *key)?;
    }
    let known = known - keys.len();
    say(format_args!("{} pushed, {known} already there", count(keys.len(), "record")));
    let unsigned = keys.iter().filter(|key| remote.signs(store, **key) == Some(false)).count();
    if unsigned > 0 {
        say(format_args!("note: {} not signed, because made elsewhere", count(unsigned, "record")));
    }
    if noted > 0 {
        say(format_args!(
            "note: {} there already with the tags and notes of the time of its push; `sweep cache export` carries later ones",
            count(noted, "record")
        ));
    }
    if format.is_json() {
        answer(&json!({ "pushed": keys.len(), "known": known, "unsigned": unsigned }), Vec::new())?;
    }
    Ok(Exit::Done)
}

/// `sweep cache pull`: these records, or all.
pub(super) fn pull_all(
    store: &Store,
    args: &RemoteArgs,
    keys: Option<Vec<Key>>,
    format: FormatArgs,
) -> Result<Exit, Error> {
    let remote = args.required()?;
    let mut keys = match keys {
        Some(keys) => keys,
        None => remote.keys()?,
    };
    let all = keys.len();
    keys.retain(|key| !store.contains(*key));
    let known = all - keys.len();
    let pulled = remote.pull(store, &keys, &Arriving::default())?;
    for notice in refused(&pulled) {
        say(format_args!("{notice}"));
    }
    if let Some(reason) = pulled.broken {
        return Err(Error::Remote(RemoteError::Broken(remote.name().to_owned(), reason)));
    }
    let (added, missing, refused) = (count(pulled.added, "record"), pulled.missing, pulled.refused.len());
    say(format_args!("{added} pulled, {known} already known, {missing} not there, {refused} refused"));
    if format.is_json() {
        let refused = Refused::all(&pulled.refused);
        let pulled = json!({ "added": pulled.added, "known": known, "missing": pulled.missing, "refused": refused });
        answer(&pulled, Vec::new())?;
    }
    Ok(if refused == 0 { Exit::Done } else { Exit::Failure })
}
