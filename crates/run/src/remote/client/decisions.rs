//! Decisions in a remote: decisions whose result does not follow from their grounds, such as the answers of samplers that are other
//! programs. Each decision is an object under its key, and signed like a record.

use std::{fs::File, io::Read as _};

use object_store::{ObjectStoreExt as _, PutMode, PutPayload, path::Path};
use tokio::time::timeout;

use super::{Fetched, Remote, envelope};
use crate::{
    record::Key,
    remote::RemoteError,
    store::{Decision, Store, TransferError},
};

/// The largest decision in bytes.
const MAX_DECISION_BYTES: u64 = 64 << 20;

impl Remote {
    /// Location of a decision in the remote.
    fn decision_place(&self, key: Key) -> Path {
        let name = key.to_string();
        self.prefix.clone().join("decisions").join(&name[..2]).join(name.as_str())
    }

    /// A decision with this key; `None` if the remote has none.
    ///
    /// # Errors
    /// The remote does not answer, or its object is damaged or not trusted.
    pub fn decision(&self, store: &Store, key: Key) -> Result<Option<Decision>, RemoteError> {
        let folder = store.beside().map_err(here)?;
        let answer = self.runtime.block_on(self.fetch(self.decision_place(key), folder))?;
        let mut file = match answer {
            Fetched::Object(file) => file,
            Fetched::Missing => return Ok(None),
            Fetched::Slow(reason) => return Err(self.refused(key, &reason)),
        };
        let signed = envelope::open(&mut file).map_err(here)?.map_err(|reason| self.refused(key, &reason))?;
        self.trust.allows(signed).map_err(|reason| self.refused(key, &reason))?;
        let mut text = Vec::new();
        file.take(MAX_DECISION_BYTES).read_to_end(&mut text).map_err(here)?;
        let decision = serde_json::from_slice::<Decision>(&text).ok();
        let decision = decision.filter(|decision| decision.key().is_ok_and(|actual_key| actual_key == key));
        decision.map(Some).ok_or_else(|| self.refused(key, "it is another decision"))
    }

    /// Uploads `decision` unless the remote has one with its key, and returns the remote's decision: the first decision applies to all
    /// machines.
    ///
    /// # Errors
    /// The remote does not answer, or its decision is damaged or not trusted.
    pub fn agree(&self, store: &Store, decision: &Decision) -> Result<Decision, RemoteError> {
        let json_error = |error: serde_json::Error| here(error.into());
        let (key, text) = (decision.key().map_err(json_error)?, serde_json::to_vec(decision).map_err(json_error)?);
        let mut file = tempfile::tempfile_in(store.beside().map_err(here)?).map_err(here)?;
        envelope::seal(&mut file, self.key.as_ref(), |writer| writer.write_all(&text)).map_err(here)?;
        if self.create(&self.decision_place(key), file)? {
            return Ok(decision.clone());
        }
        self.decision(store, key)?.ok_or_else(|| self.refused(key, "it existed and is now missing"))
    }

    /// Makes an object; `false` if there is one already.
    fn create(&self, place: &Path, mut file: File) -> Result<bool, RemoteError> {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(here)?;
        let upload = async {
            let result = self.objects.put_opts(place, PutPayload::from(text.clone()), PutMode::Create.into()).await;
            match result {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
                // Not every server supports conditional requests.
                Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => {
                    self.objects.put(place, PutPayload::from(text)).await.map(|_| true)
                }
                Err(error) => Err(error),
            }
        };
        let timeout_error = || RemoteError::Broken(self.name.clone(), "an upload took too long".to_owned());
        let upload =
            self.runtime.block_on(async { timeout(self.timeout, upload).await }).map_err(|_| timeout_error())?;
        upload.map_err(|error| self.broken(&error))
    }

    fn refused(&self, key: Key, reason: &str) -> RemoteError {
        RemoteError::Broken(self.name.clone(), format!("its decision {} cannot be used: {reason}", key.short()))
    }
}

fn here(error: std::io::Error) -> RemoteError {
    RemoteError::Local(TransferError::Io(error))
}
