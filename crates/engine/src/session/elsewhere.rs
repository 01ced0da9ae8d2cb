//! The store and the batch system of a run whose jobs run on other machines.

use std::path::Path;

use crate::{
    error::Error,
    recipe::BatchSystem,
    remote::Remote,
    run::{
        InBatchSystem, Through,
        cluster::{self, Opening},
    },
    store::Store,
};

/// Shares the store among machines, and returns the name of its jobs in the batch system.
pub(super) fn shared(
    results: &Path,
    store: &Store,
    system: &BatchSystem,
    pilots: Option<u16>,
    remote: Option<&Remote>,
) -> Result<Through, Error> {
    let opening = opening(results, store, remote)?;
    let name = opening.jobs_name.clone();
    let cluster = cluster::open(system, opening);
    if let Some(reason) = cluster.unavailable() {
        return Err(Error::NoBatchSystem { system: cluster.system().to_owned(), reason: reason.to_owned() });
    }
    if cluster.needs_exchange() && remote.is_none() {
        let reason = "its machines share no folder with this one; name a store that they and this machine reach, with `--remote`";
        return Err(Error::NoBatchSystem { system: cluster.system().to_owned(), reason: reason.to_owned() });
    }
    // Otherwise other machines take locks in it.
    if cluster.has_shared_folder() && !store.share().map_err(Error::io("cannot write to the store"))? {
        return Err(Error::NotShared);
    }
    let jobs = InBatchSystem { name, pilots: pilots.map(usize::from) };
    Ok(Through::Batch([(system.word().to_owned(), jobs)].into()))
}

/// The jobs of a store in a batch system.
pub(super) fn opening(results: &Path, store: &Store, remote: Option<&Remote>) -> Result<Opening, Error> {
    let id = store.id().map_err(Error::io("cannot write to the store"))?;
    let remote = remote.map(|remote| remote.name().to_owned());
    Ok(Opening { jobs_name: format!("sweep-{id}"), results: results.to_owned(), remote })
}
