//! The store and the batch system of a run whose jobs run on other machines.

use super::{Request, SessionError};
use crate::{
    recipe::BatchSystem,
    run::{
        InBatchSystem, Through,
        cluster::{self, Opening},
    },
    store::Store,
};

/// Shares the store among machines, and returns the name of its jobs in the batch system.
pub(super) fn shared(request: &Request, store: &Store, system: &BatchSystem) -> Result<Through, SessionError> {
    let opening = opening(request, store)?;
    let name = opening.jobs_name.clone();
    let cluster = cluster::open(system, opening);
    if let Some(reason) = cluster.unavailable() {
        return Err(SessionError::NoBatchSystem { system: cluster.system().to_owned(), reason: reason.to_owned() });
    }
    if cluster.needs_exchange() && request.remote.is_none() {
        let reason = "its machines share no folder with this one; name a store that they and this machine reach, with `--remote`";
        return Err(SessionError::NoBatchSystem { system: cluster.system().to_owned(), reason: reason.to_owned() });
    }
    // Otherwise other machines take locks in it.
    if cluster.has_shared_folder() && !store.share().map_err(SessionError::io("cannot write to the store"))? {
        return Err(SessionError::NotShared);
    }
    let jobs = InBatchSystem { name, pilots: request.pilots };
    Ok(Through::Batch([(system.word().to_owned(), jobs)].into()))
}

/// The jobs of a store in a batch system.
pub(super) fn opening(request: &Request, store: &Store) -> Result<Opening, SessionError> {
    let id = store.id().map_err(SessionError::io("cannot write to the store"))?;
    let remote = request.remote.as_ref().map(|remote| remote.name().to_owned());
    Ok(Opening { jobs_name: format!("sweep-{id}"), results: request.results.clone(), remote })
}
