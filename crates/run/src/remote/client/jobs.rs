//! Texts of jobs that run on machines without a shared folder: specifications on their way there, journals on their way back. They
//! are signed and trusted as records are, because a specification determines the program that runs.

use std::io::Read as _;

use object_store::{ObjectStoreExt as _, path::Path};
use tokio::time::timeout;

use super::{ANSWER, Fetched, Remote, envelope};
use crate::{record::Key, remote::RemoteError, store::TransferError};

/// The largest text in bytes.
const MAX_TEXT_BYTES: u64 = 64 << 20;

fn here(error: std::io::Error) -> RemoteError {
    RemoteError::Local(TransferError::Io(error))
}

impl Remote {
    fn text_place(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone().join("jobs"), Path::join)
    }

    /// True if there is a record.
    ///
    /// # Errors
    /// The remote does not answer.
    pub fn has_record(&self, key: Key) -> Result<bool, RemoteError> {
        let place = self.place(key);
        let timeout_error = |_| RemoteError::Broken(self.name.clone(), "there was no answer in time".to_owned());
        let head =
            self.runtime.block_on(async { timeout(ANSWER, self.objects.head(&place)).await }).map_err(timeout_error)?;
        match head {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// Returns a text of a job; `None` if the remote does not have it.
    ///
    /// # Errors
    /// The remote does not answer, or the text is damaged or its signer is not trusted.
    pub fn job_text(&self, name: &str) -> Result<Option<Vec<u8>>, RemoteError> {
        let refusal = |reason: &str| RemoteError::Broken(self.name.clone(), format!("{name} is not used: {reason}"));
        let mut file = match self.runtime.block_on(self.fetch(self.text_place(name), std::env::temp_dir()))? {
            Fetched::Object(file) => file,
            Fetched::Missing => return Ok(None),
            Fetched::Slow(reason) => return Err(refusal(&reason)),
        };
        let signed = envelope::open(&mut file).map_err(here)?.map_err(|reason| refusal(&reason))?;
        self.trust.allows(signed).map_err(|reason| refusal(&reason))?;
        let mut text = Vec::new();
        file.take(MAX_TEXT_BYTES).read_to_end(&mut text).map_err(here)?;
        Ok(Some(text))
    }

    /// Puts a text of a job there.
    ///
    /// # Errors
    /// The remote does not answer.
    pub fn put_job_text(&self, name: &str, text: &[u8]) -> Result<(), RemoteError> {
        let mut file = tempfile::tempfile().map_err(here)?;
        envelope::seal(&mut file, self.key.as_ref(), |writer| writer.write_all(text)).map_err(here)?;
        let timeout_error = |_| RemoteError::Broken(self.name.clone(), "an upload took too long".to_owned());
        let upload = async { timeout(self.timeout, self.put(self.text_place(name), file)).await };
        self.runtime.block_on(upload).map_err(timeout_error)?
    }
}
