//! `sweep watch`.

use std::path::Path;

use clap::Args;

use super::runs;
use crate::{
    error::{Error, Exit},
    store::Store,
    terminal::{self, Ended},
};

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// A run, by its folder's name. Default: the live run, else the latest run.
    run: Option<String>,
}

pub(super) fn watch(results: &Path, args: &WatchArgs) -> Result<Exit, Error> {
    if !terminal::is_possible() {
        let text = "`sweep watch` needs a terminal as standard input and output: `sweep status` prints the jobs of a run, \
            `sweep logs JOB --follow` follows a log, `sweep ui` serves pages";
        return Err(Error::Unknown(text.to_owned()));
    }
    // A store that a later version has written must not be shown.
    Store::open(results)?;
    let folder = runs::find(results, args.run.as_deref())?;
    match terminal::watch(results, folder).map_err(Error::io("cannot show the run"))? {
        Ended::Quit => Ok(Exit::Done),
        Ended::Signal(signal) => Ok(Exit::Interrupted(signal)),
    }
}
