//! The plan that `sweep run` runs.

use std::{collections::HashSet, path::PathBuf};

use super::RunArgs;
use crate::{
    cli::{measure, saved::SavedPlan},
    error::Error,
    plan::JobId,
    session::{self, Prepared, Request},
    store::Store,
};

/// The plan that is to run, where, and which of its jobs.
pub(super) fn prepared(asked: &Request, args: &RunArgs) -> Result<(Prepared, Store, HashSet<JobId>), Error> {
    let (prepared, store, saved) = planned(asked, args)?;
    let mut selected = prepared.plan.selection()?;
    if args.measures {
        let ready = measure::ready(&prepared.plan, &store, &selected);
        selected.retain(|id| ready.contains(id) || store.contains(prepared.plan.job(*id).key));
    }
    if let Some((path, saved)) = &saved {
        saved.holds(path, &prepared.plan, &selected)?;
    }
    Ok((prepared, store, selected))
}

/// A saved plan, and its file.
pub(super) type Saved<'a> = (&'a PathBuf, SavedPlan);

/// The plan for `args`, and the saved plan that `--plan` names.
pub(super) fn planned<'a>(asked: &Request, args: &'a RunArgs) -> Result<(Prepared, Store, Option<Saved<'a>>), Error> {
    let results = &asked.results;
    let saved = match &args.plan {
        Some(path) => Some((path, SavedPlan::read(path)?)),
        None => None,
    };
    let mut prepared = match &saved {
        Some((_, SavedPlan { request, .. })) => {
            request.changes.prepare(results, &request.paths, &request.only, true)?
        }
        None => args.changes.prepare(results, &args.paths, &args.only.only, true)?,
    };
    let store = Store::open(results)?;
    prepared.batches.share(asked.remote.clone());
    session::begin(&mut prepared, &store)?;
    Ok((prepared, store, saved))
}
