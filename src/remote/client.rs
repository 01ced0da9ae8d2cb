//! The remote itself, through `object_store`.

use std::{
    collections::{BTreeSet, HashSet},
    fs::File,
    io::{Read as _, Write as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig, WriteMultipart,
    aws::AmazonS3Builder, azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder, local::LocalFileSystem,
    path::Path,
};
use tempfile::NamedTempFile;
use tokio::runtime::{Builder, Runtime};

use super::{Pulled, RemoteError, envelope};
use crate::{
    plan::Key,
    store::{Store, StoreError, TransferError},
};

/// Objects up to this size go in one request; larger ones in parts of this size.
const PART: usize = 8 << 20;
/// So many parts are on their way at once.
const PARTS: usize = 4;
/// So many records are fetched at once.
const AT_ONCE: usize = 16;
/// Of more records than this it is asked first which there are, instead of asking for each.
const MANY: usize = 500;
/// How long it may be silent.
const SILENCE: Duration = Duration::from_secs(20);

/// An object store.
#[derive(Debug)]
pub struct Remote {
    /// Its address, without anything that is nobody's business.
    name: String,
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    runtime: Runtime,
}

impl Remote {
    /// The remote at this address. Nothing is asked of it yet.
    pub fn open(address: &str) -> Result<Self, RemoteError> {
        let bad = |why: &str| RemoteError::Address(redacted(address), why.to_owned());
        let (scheme, rest) = address.split_once("://").ok_or_else(|| bad("it has no scheme"))?;
        if rest.contains('@') && scheme != "file" {
            return Err(bad("credentials come from the environment, not from the address"));
        }
        if rest.contains(['?', '#']) {
            return Err(bad("it ends with the path"));
        }
        let (bucket, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let invalid = |error: object_store::Error| bad(&plain(&error));
        let (objects, folder): (Arc<dyn ObjectStore>, &str) = match scheme {
            "file" => {
                // There all the same after the disk was taken away: a folder is not made, lest it be made elsewhere.
                let folder = PathBuf::from(format!("/{folder}"));
                if !bucket.is_empty() || !folder.is_dir() {
                    return Err(bad("there is no such folder; it is not made"));
                }
                (Arc::new(LocalFileSystem::new_with_prefix(folder).map_err(invalid)?.with_fsync(true)), "")
            }
            _ if bucket.is_empty() => return Err(bad("it names no bucket")),
            "s3" => {
                let plain = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
                    .iter()
                    .any(|name| std::env::var(name).is_ok_and(|endpoint| endpoint.starts_with("http://")));
                let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry());
                let builder = builder.with_client_options(options().with_allow_http(plain));
                (Arc::new(builder.build().map_err(invalid)?), folder)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry());
                (Arc::new(builder.with_client_options(options()).build().map_err(invalid)?), folder)
            }
            "az" => {
                let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket).with_retry(retry());
                (Arc::new(builder.with_client_options(options()).build().map_err(invalid)?), folder)
            }
            other => return Err(bad(&format!("`{other}` is not one of s3, gs, az and file"))),
        };
        let prefix = Path::parse(folder.trim_matches('/')).map_err(|error| bad(&error.to_string()))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| RemoteError::Broken(address.to_owned(), error.to_string()))?;
        Ok(Self { name: address.to_owned(), objects, prefix, runtime })
    }

    /// Its address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where a record is, there.
    fn place(&self, key: Key) -> Path {
        let name = key.to_string();
        self.prefix.clone().join("records").join(&name[..2]).join(name.as_str())
    }

    fn broken(&self, error: &object_store::Error) -> RemoteError {
        RemoteError::Broken(self.name.clone(), plain(error))
    }

    /// Brings records here. What is there but is not what it should be is left out; the job runs then, and what it leaves
    /// takes the object's place.
    pub fn pull(&self, store: &Store, keys: &[Key]) -> Result<Pulled, RemoteError> {
        let mut pulled = Pulled::default();
        let mut wanted = keys.to_vec();
        if wanted.len() > MANY {
            match self.keys() {
                Ok(there) => {
                    let there: HashSet<Key> = there.into_iter().collect();
                    wanted.retain(|key| there.contains(key));
                    pulled.missing = keys.len() - wanted.len();
                }
                Err(error) => return Ok(Pulled { broken: Some(error.to_string()), ..pulled }),
            }
        }
        let folder = store.beside().map_err(StoreError::from).map_err(TransferError::from)?;
        let fetch = async {
            let fetches = stream::iter(wanted).map(|key| {
                let folder = folder.clone();
                async move { (key, self.fetch(key, folder).await) }
            });
            let mut fetched = fetches.buffer_unordered(AT_ONCE);
            while let Some((key, file)) = fetched.next().await {
                match file {
                    Ok(Some(file)) => match take(store, key, file)? {
                        Ok(()) => pulled.added += 1,
                        Err(reason) => pulled.refused.push((key, reason)),
                    },
                    Ok(None) => pulled.missing += 1,
                    Err(error) => {
                        pulled.broken = Some(error.to_string());
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        self.runtime.block_on(fetch).map(|()| pulled)
    }

    /// An object, in a file; `None` if there is none.
    async fn fetch(&self, key: Key, folder: PathBuf) -> Result<Option<NamedTempFile>, RemoteError> {
        let here = |error: std::io::Error| RemoteError::Here(TransferError::Io(error));
        let found = match self.objects.get(&self.place(key)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.broken(&error)),
            Ok(found) => found,
        };
        let mut file = NamedTempFile::new_in(folder).map_err(here)?;
        let mut parts = found.into_stream();
        while let Some(part) = parts.try_next().await.map_err(|error| self.broken(&error))? {
            file.write_all(&part).map_err(here)?;
        }
        Ok(Some(file))
    }

    /// Brings a record there. It is there whole or not at all: an object comes to be with its last byte.
    pub fn push(&self, store: &Store, key: Key) -> Result<(), RemoteError> {
        let here = |error: std::io::Error| RemoteError::Here(TransferError::Io(error));
        let folder = store.beside().map_err(here)?;
        let mut file = tempfile::tempfile_in(folder).map_err(here)?;
        envelope::seal(&mut file, |archive| store.export(&BTreeSet::from([key]), archive))?;
        self.runtime.block_on(self.put(self.place(key), file))
    }

    async fn put(&self, place: Path, mut file: File) -> Result<(), RemoteError> {
        let here = |error: std::io::Error| RemoteError::Here(TransferError::Io(error));
        let broken = |error: object_store::Error| self.broken(&error);
        let mut part = Vec::new();
        (&mut file).take(PART as u64).read_to_end(&mut part).map_err(here)?;
        if part.len() < PART {
            self.objects.put(&place, PutPayload::from(part)).await.map_err(broken)?;
            return Ok(());
        }
        let upload = self.objects.put_multipart(&place).await.map_err(broken)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        while !part.is_empty() {
            if let Err(error) = upload.wait_for_capacity(PARTS).await {
                // What is there of it is no object; where even this fails, the store's own rules clear it.
                let _ = upload.abort().await;
                return Err(broken(error));
            }
            upload.write(&part);
            part.clear();
            (&mut file).take(PART as u64).read_to_end(&mut part).map_err(here)?;
        }
        upload.finish().await.map(|_| ()).map_err(broken)
    }

    /// The keys of all records that it has.
    pub fn keys(&self) -> Result<Vec<Key>, RemoteError> {
        let prefix = self.prefix.clone().join("records");
        let list = async {
            let names = self.objects.list(Some(&prefix)).map_ok(|object| object.location);
            names.try_collect::<Vec<Path>>().await
        };
        let names = self.runtime.block_on(list).map_err(|error| self.broken(&error))?;
        let mut keys: Vec<Key> = names.iter().filter_map(|name| name.filename()?.parse().ok()).collect();
        keys.sort_unstable();
        Ok(keys)
    }
}

/// Takes a fetched record into the store, if it is what it should be; or says why not.
fn take(store: &Store, key: Key, mut fetched: NamedTempFile) -> Result<Result<(), String>, RemoteError> {
    let file = fetched.as_file_mut();
    if let Err(reason) = envelope::open(file).map_err(TransferError::Io)? {
        return Ok(Err(reason));
    }
    match store.import(std::io::BufReader::new(file)) {
        Ok(imported) => match imported.refused.into_iter().next() {
            Some((_, reason)) => Ok(Err(reason)),
            None if store.contains(key) => Ok(Ok(())),
            None => Ok(Err("it is the record of another job".into())),
        },
        Err(TransferError::Foreign(reason)) => Ok(Err(reason)),
        Err(error) => Err(error.into()),
    }
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: 3, retry_timeout: SILENCE }
}

fn options() -> ClientOptions {
    // A large object takes as long as it takes, as long as something comes.
    ClientOptions::new().with_connect_timeout(Duration::from_secs(5)).with_read_timeout(SILENCE).with_timeout_disabled()
}

/// What an error says, in a line, without what is secret.
fn plain(error: &object_store::Error) -> String {
    let refused = match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            "it refuses the credentials in the environment, or there are none: "
        }
        _ => "",
    };
    let text = error.to_string();
    // What follows is a page of the server's.
    let text = text.split(": <").next().unwrap_or_default();
    let line: Vec<&str> = text.split_whitespace().collect();
    let line: String = redacted(&line.join(" ")).chars().take(400).collect();
    format!("{refused}{line}")
}

/// A text without what an address may carry behind `?`, and without the values of variables that sound secret.
fn redacted(text: &str) -> String {
    const WORDS: [&str; 6] = ["SECRET", "TOKEN", "KEY", "PASSWORD", "SAS", "CREDENTIAL"];
    let mut text = text.to_owned();
    for (name, value) in std::env::vars() {
        if value.len() >= 6 && WORDS.iter().any(|word| name.to_uppercase().contains(word)) {
            text = text.replace(&value, "…");
        }
    }
    let mut shown = String::new();
    for (index, part) in text.split('?').enumerate() {
        let rest = part.find([' ', ')', '"']).unwrap_or(part.len());
        shown.push_str(if index == 0 { part } else { &part[rest..] });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::store_with_one;

    #[test]
    fn addresses_are_checked() {
        for (address, why) in [
            ("bucket", "no scheme"),
            ("ftp://host/x", "not one of s3"),
            ("s3:///x", "no bucket"),
            ("s3://key:secret@bucket", "from the environment"),
            ("az://c/x?sig=1", "ends with the path"),
            ("file:///no/such/folder", "no such folder"),
        ] {
            let error = Remote::open(address).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(!error.contains("sig=1"), "{error}");
        }
    }

    #[test]
    fn a_folder_is_a_remote() {
        let (here, there, folder) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, record) = store_with_one(here.path());
        let remote = Remote::open(&format!("file://{}", folder.path().display())).unwrap();
        remote.push(&store, record.key).unwrap();
        assert_eq!(remote.keys().unwrap(), [record.key]);
        let other = Store::new(there.path());
        let missing: Key = "0".repeat(64).parse().unwrap();
        let pulled = remote.pull(&other, &[record.key, missing]).unwrap();
        assert_eq!(pulled, Pulled { added: 1, missing: 1, ..Pulled::default() });
        assert_eq!(other.get(record.key).unwrap().unwrap(), record);
        assert_eq!(other.verify().unwrap().defects, []);
    }

    #[test]
    fn the_record_of_another_job_is_refused() {
        let (here, there, folder) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, record) = store_with_one(here.path());
        let remote = Remote::open(&format!("file://{}", folder.path().display())).unwrap();
        remote.push(&store, record.key).unwrap();
        let other: Key = "ab".repeat(32).parse().unwrap();
        let place = |key: Key| folder.path().join("records").join(&key.to_string()[..2]).join(key.to_string());
        fs_err::create_dir_all(place(other).parent().unwrap()).unwrap();
        fs_err::copy(place(record.key), place(other)).unwrap();
        let pulled = remote.pull(&Store::new(there.path()), &[other]).unwrap();
        assert_eq!(pulled.refused, [(other, "it is the record of another job".to_owned())]);
    }
}
