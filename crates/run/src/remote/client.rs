//! The remote, through `object_store`.

mod decisions;
mod jobs;

use std::{
    collections::{BTreeSet, HashSet},
    fs::File,
    io::{Read as _, Write as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig, WriteMultipart,
    aws::AmazonS3Builder, azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder, local::LocalFileSystem,
    path::Path,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};
use tracing::{debug, info, info_span};

use super::{
    Options, Pulled, RemoteError, connect, envelope,
    sign::{SecretKey, Trust},
};
use crate::run::Arriving;
use crate::{
    format::duration,
    host::log,
    record::Key,
    store::{Origin, Store, StoreError, TransferError},
};

/// Objects up to this size go in one request; larger ones in parts of this size.
const PART: usize = 8 << 20;
/// Maximum number of parts in flight.
const PARTS: usize = 4;
/// Maximum number of records that are fetched at once.
const AT_ONCE: usize = 16;
/// For more records than this, the remote is first asked for a listing instead of for each record.
const MAX_SINGLE_REQUESTS: usize = 500;
/// Longest time without data.
const SILENCE: Duration = Duration::from_secs(20);
/// Time limit until a response begins, including retries.
const ANSWER: Duration = Duration::from_mins(1);
/// A transfer of fewer bytes in [`SILENCE`] is abandoned; a poor connection is faster.
const MIN_BYTES: usize = 16 << 10;
/// Number of slow records after which a remote is given up.
const MAX_SLOW: usize = 3;
/// Interval at which a pull checks that it is still needed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// An object store.
#[derive(Debug)]
pub struct Remote {
    /// Its address, without credentials.
    name: String,
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    runtime: Runtime,
    key: Option<SecretKey>,
    trust: Arc<Trust>,
    /// The longest that one record may take.
    timeout: Duration,
    given_up: AtomicBool,
}

/// Result of a request for an object.
enum Fetched {
    /// The object is in this unnamed file.
    Object(File),
    /// The remote has no such object.
    Missing,
    /// The fetch was given up, with the reason.
    Slow(String),
}

/// Result for a record.
#[derive(Debug)]
enum Taken {
    /// The record was added to the store.
    Added,
    /// The object does not exist.
    Missing,
    /// Its object came too slowly.
    Slow(String),
    /// The fetched object is invalid or not trusted.
    Refused(String),
}

impl Remote {
    /// Opens the remote at `address`, without sending a request yet.
    pub fn open(address: &str, options: &Options) -> Result<Self, RemoteError> {
        let address_error = |reason: &str| RemoteError::Address(redacted(address), reason.to_owned());
        let (scheme, location) = address.split_once("://").ok_or_else(|| address_error("it has no scheme"))?;
        if location.contains('@') && scheme != "file" {
            return Err(address_error(
                "it contains credentials, which are read from the environment, not from the \
                address",
            ));
        }
        if location.contains(['?', '#']) {
            return Err(address_error("it must end with the path"));
        }
        let (bucket, folder) = location.split_once('/').unwrap_or((location, ""));
        let connector = connect::Connector { silence: SILENCE };
        let builder_error = |error: object_store::Error| address_error(&plain(&error));
        let (objects, folder): (Arc<dyn ObjectStore>, &str) = match scheme {
            "file" => {
                // Checked again, because the disk may have been removed: a folder is not created, lest it be created
                // elsewhere.
                let folder = PathBuf::from(format!("/{folder}"));
                if !bucket.is_empty() || !folder.is_dir() {
                    return Err(address_error("the folder does not exist, and is not created"));
                }
                (Arc::new(LocalFileSystem::new_with_prefix(folder).map_err(builder_error)?.with_fsync(true)), "")
            }
            _ if bucket.is_empty() => return Err(address_error("it names no bucket")),
            "s3" => {
                let is_http = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
                    .iter()
                    .any(|name| std::env::var(name).is_ok_and(|endpoint| endpoint.starts_with("http://")));
                let builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_retry(retry())
                    .with_http_connector(connector);
                let builder = builder.with_client_options(ClientOptions::new().with_allow_http(is_http));
                (Arc::new(builder.build().map_err(builder_error)?), folder)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry());
                (Arc::new(builder.with_http_connector(connector).build().map_err(builder_error)?), folder)
            }
            "az" => {
                let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket).with_retry(retry());
                (Arc::new(builder.with_http_connector(connector).build().map_err(builder_error)?), folder)
            }
            unknown_scheme => {
                return Err(address_error(&format!("`{unknown_scheme}` is not one of s3, gs, az and file")));
            }
        };
        let prefix = Path::parse(folder.trim_matches('/')).map_err(|error| address_error(&error.to_string()))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| RemoteError::Broken(address.to_owned(), error.to_string()))?;
        let key = options.key.as_deref().map(SecretKey::read).transpose()?;
        let trust = Arc::new(Trust::read(&options.trust, key.as_ref())?);
        let (name, timeout, given_up) = (address.to_owned(), options.timeout, AtomicBool::new(false));
        Ok(Self { name, objects, prefix, runtime, key, trust, timeout, given_up })
    }

    /// Its address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if a pull has abandoned it.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Location of a record in the remote.
    fn place(&self, key: Key) -> Path {
        let name = key.to_string();
        self.prefix.clone().join("records").join(&name[..2]).join(name.as_str())
    }

    fn broken(&self, error: &object_store::Error) -> RemoteError {
        RemoteError::Broken(self.name.clone(), plain(error))
    }

    /// Downloads records. A damaged or wrong object is skipped; the job runs then, and its result replaces the object.
    /// Ends early if the caller no longer waits.
    pub fn pull(&self, store: &Store, keys: &[Key], arriving: &Arriving) -> Result<Pulled, RemoteError> {
        let _pulling = info_span!(target: log::REMOTE, "pull", remote = self.name, records = keys.len()).entered();
        let mut summary = Pulled::default();
        let mut wanted_keys = keys.to_vec();
        if wanted_keys.len() > MAX_SINGLE_REQUESTS {
            match self.keys() {
                Ok(remote_keys) => {
                    let remote_keys: HashSet<Key> = remote_keys.into_iter().collect();
                    let (known_keys, missing_keys) = wanted_keys.into_iter().partition(|key| remote_keys.contains(key));
                    summary.missing = Vec::len(&missing_keys);
                    for key in missing_keys {
                        arriving.decided(key);
                    }
                    wanted_keys = known_keys;
                }
                Err(error) => {
                    self.given_up.store(true, Ordering::Relaxed);
                    return Ok(Pulled { broken: Some(error.to_string()), ..summary });
                }
            }
        }
        let folder = store.beside().map_err(StoreError::from).map_err(TransferError::from)?;
        let fetches = stream::iter(wanted_keys).map(|key| {
            let folder = folder.clone();
            async move { (key, self.bring(store, key, folder).await) }
        });
        let fetches = fetches.buffer_unordered(AT_ONCE);
        self.runtime.block_on(self.receive(Box::pin(fetches), arriving, &mut summary))?;
        if summary.broken.is_some() {
            self.given_up.store(true, Ordering::Relaxed);
        }
        let Pulled { added, missing, refused, broken } = &summary;
        info!(target: log::REMOTE, added, missing, refused = refused.len(), broken, "pulled");
        Ok(summary)
    }

    /// Takes the records that arrive, until all have.
    async fn receive(
        &self,
        mut fetches: impl Stream<Item = (Key, Result<Taken, RemoteError>)> + Unpin,
        arriving: &Arriving,
        summary: &mut Pulled,
    ) -> Result<(), RemoteError> {
        let mut slow_count = 0;
        while !arriving.is_stopped() {
            let Ok(fetched) = timeout(CHECK_INTERVAL, fetches.next()).await else { continue };
            let Some((key, fetched)) = fetched else { return Ok(()) };
            debug!(target: log::REMOTE, key = key.short(), ?fetched, "answered");
            match fetched {
                Ok(Taken::Added) => summary.added += 1,
                Ok(Taken::Missing) => summary.missing += 1,
                Ok(Taken::Refused(reason)) => summary.refused.push((key, reason)),
                Ok(Taken::Slow(reason)) => {
                    summary.refused.push((key, reason));
                    slow_count += 1;
                    if slow_count == MAX_SLOW {
                        let reason = format!("{slow_count} records came too slowly");
                        summary.broken = Some(RemoteError::Broken(self.name.clone(), reason).to_string());
                        return Ok(());
                    }
                }
                Err(error @ RemoteError::Local(_)) => return Err(error),
                Err(error) => {
                    summary.broken = Some(error.to_string());
                    return Ok(());
                }
            }
            arriving.decided(key);
        }
        Ok(())
    }

    /// A record, from there to here.
    async fn bring(&self, store: &Store, key: Key, folder: PathBuf) -> Result<Taken, RemoteError> {
        let mut file = match self.fetch(self.place(key), folder).await? {
            Fetched::Object(file) => file,
            Fetched::Missing => return Ok(Taken::Missing),
            Fetched::Slow(reason) => return Ok(Taken::Slow(reason)),
        };
        let (store, trust, remote_name) = (store.clone(), Arc::clone(&self.trust), self.name.clone());
        // On a thread beside the others, whose speed is measured meanwhile.
        let result = self.runtime.spawn_blocking(move || take(&store, key, &mut file, &trust, &remote_name)).await;
        let result = result.map_err(|error| RemoteError::Local(TransferError::Io(std::io::Error::other(error))))??;
        Ok(result.map_or_else(Taken::Refused, |()| Taken::Added))
    }

    /// An object, within the time that it may take.
    async fn fetch(&self, place: Path, folder: PathBuf) -> Result<Fetched, RemoteError> {
        let too_slow =
            |_| Ok(Fetched::Slow(format!("it took longer than {} to come", duration(self.timeout.as_secs_f64()))));
        timeout(self.timeout, self.fetch_at_any_time(place, folder)).await.unwrap_or_else(too_slow)
    }

    async fn fetch_at_any_time(&self, place: Path, folder: PathBuf) -> Result<Fetched, RemoteError> {
        let local_error = |error: std::io::Error| RemoteError::Local(TransferError::Io(error));
        let object = match timeout(ANSWER, self.objects.get(&place)).await {
            Err(_) => {
                let reason = format!("there was no answer within {}", duration(ANSWER.as_secs_f64()));
                return Ok(Fetched::Slow(reason));
            }
            Ok(Err(object_store::Error::NotFound { .. })) => return Ok(Fetched::Missing),
            Ok(Err(error)) => return Err(self.broken(&error)),
            Ok(Ok(object)) => object,
        };
        // A file without a name: nothing of it remains, however this process ends.
        let mut file = tempfile::tempfile_in(folder).map_err(local_error)?;
        let mut parts = object.into_stream();
        let (mut window_start, mut bytes) = (Instant::now(), 0);
        loop {
            match timeout(SILENCE.saturating_sub(window_start.elapsed()), parts.try_next()).await {
                Ok(Ok(Some(part))) => {
                    bytes += part.len();
                    file.write_all(&part).map_err(local_error)?;
                }
                Ok(Ok(None)) => return Ok(Fetched::Object(file)),
                Ok(Err(error)) => return Err(self.broken(&error)),
                Err(_) => {}
            }
            if window_start.elapsed() >= SILENCE {
                if bytes < MIN_BYTES {
                    let time = duration(window_start.elapsed().as_secs_f64());
                    return Ok(Fetched::Slow(format!("it came too slowly: {bytes} B in {time}")));
                }
                (window_start, bytes) = (Instant::now(), 0);
            }
        }
    }

    /// True if a record would be signed; `None` without a key. A record made elsewhere is not: a signature means that
    /// it was made here.
    pub fn signs(&self, store: &Store, key: Key) -> Option<bool> {
        self.key.as_ref().map(|_| store.origin(key).is_none())
    }

    /// Uploads a record. The upload is atomic: an object exists only after its last byte.
    pub fn push(&self, store: &Store, key: Key) -> Result<(), RemoteError> {
        let _pushing = info_span!(target: log::REMOTE, "push", remote = self.name, key = key.short()).entered();
        let local_error = |error: std::io::Error| RemoteError::Local(TransferError::Io(error));
        let folder = store.beside().map_err(local_error)?;
        let mut file = tempfile::tempfile_in(folder).map_err(local_error)?;
        let signer = self.key.as_ref().filter(|_| self.signs(store, key) == Some(true));
        envelope::seal(&mut file, signer, |archive| store.export(&BTreeSet::from([key]), archive))?;
        let timeout_error = || RemoteError::Broken(self.name.clone(), "an upload took too long".to_owned());
        let upload = async { timeout(self.timeout, self.put(self.place(key), file)).await };
        self.runtime.block_on(upload).unwrap_or_else(|_| Err(timeout_error()))
    }

    async fn put(&self, place: Path, mut file: File) -> Result<(), RemoteError> {
        let local_error = |error: std::io::Error| RemoteError::Local(TransferError::Io(error));
        let remote_error = |error: object_store::Error| self.broken(&error);
        let mut part = Vec::new();
        (&mut file).take(PART as u64).read_to_end(&mut part).map_err(local_error)?;
        if part.len() < PART {
            self.objects.put(&place, PutPayload::from(part)).await.map_err(remote_error)?;
            return Ok(());
        }
        let upload = self.objects.put_multipart(&place).await.map_err(remote_error)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        while !part.is_empty() {
            if let Err(error) = upload.wait_for_capacity(PARTS).await {
                // The uploaded parts do not form an object yet; if the abort fails as well, the remote's own rules
                // remove them.
                let _ = upload.abort().await;
                return Err(remote_error(error));
            }
            upload.write(&part);
            part.clear();
            (&mut file).take(PART as u64).read_to_end(&mut part).map_err(local_error)?;
        }
        upload.finish().await.map(|_| ()).map_err(remote_error)
    }

    /// The keys of all records that it has.
    pub fn keys(&self) -> Result<Vec<Key>, RemoteError> {
        let prefix = self.prefix.clone().join("records");
        let list = async {
            let names = self.objects.list(Some(&prefix)).map_ok(|object| object.location);
            names.try_collect::<Vec<Path>>().await
        };
        let timeout_error =
            || RemoteError::Broken(self.name.clone(), "the list of its records took too long".to_owned());
        let names = self.runtime.block_on(async { timeout(self.timeout, list).await }).map_err(|_| timeout_error())?;
        let names = names.map_err(|error| self.broken(&error))?;
        let mut keys: Vec<Key> = names.iter().filter_map(|name| name.filename()?.parse().ok()).collect();
        keys.sort_unstable();
        Ok(keys)
    }
}

/// Imports a fetched record into `store` if it is the record of `key` and trusted; else returns the reason.
fn take(
    store: &Store,
    key: Key,
    file: &mut File,
    trust: &Trust,
    remote_name: &str,
) -> Result<Result<(), String>, RemoteError> {
    let signed = match envelope::open(file).map_err(TransferError::Io)? {
        Ok(signed) => signed,
        Err(reason) => return Ok(Err(reason)),
    };
    if let Err(reason) = trust.allows(signed) {
        return Ok(Err(reason));
    }
    let origin = Origin { signed: signed.map(|key| key.to_string()), ..Origin::new(remote_name) };
    match store.import_only(std::io::BufReader::new(file), key, &origin) {
        Ok(import) => Ok(import.refused.into_iter().next().map_or(Ok(()), |(_, reason)| Err(reason))),
        Err(TransferError::Foreign(reason)) => Ok(Err(reason)),
        Err(error) => Err(error.into()),
    }
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: 3, retry_timeout: SILENCE }
}

/// Text of an error in one line, without secrets.
fn plain(error: &object_store::Error) -> String {
    if let Some(redirect) = connect::elsewhere(error) {
        return redirect;
    }
    let prefix = match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            "it rejects the credentials in the environment, or there are none: "
        }
        _ => "",
    };
    let text = error.to_string();
    // The text after `: <` is an HTML page of the server.
    let text = text.split(": <").next().unwrap_or_default();
    let line: Vec<&str> = text.split_whitespace().collect();
    let line: String = redacted(&line.join(" ")).chars().take(400).collect();
    format!("{prefix}{line}")
}

/// A text without the part of an address behind `?`, and without the values of variables that sound secret.
fn redacted(text: &str) -> String {
    const WORDS: [&str; 6] = ["SECRET", "TOKEN", "KEY", "PASSWORD", "SAS", "CREDENTIAL"];
    let mut text = text.to_owned();
    for (name, value) in std::env::vars() {
        if value.len() >= 6 && WORDS.iter().any(|word| name.to_uppercase().contains(word)) {
            text = text.replace(&value, "…");
        }
    }
    let mut redacted_text = String::new();
    for (index, part) in text.split('?').enumerate() {
        let rest_start = part.find([' ', ')', '"']).unwrap_or(part.len());
        redacted_text.push_str(if index == 0 { part } else { &part[rest_start..] });
    }
    redacted_text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{Record, sample},
        remote::Trusting,
        store::Claim,
    };

    /// Makes a store in `results` whose only record has a file.
    fn store_with_one(results: &std::path::Path) -> (Store, Record) {
        let store = Store::new(results);
        let record = sample();
        let Claim::Miss(pending) = store.claim(record.key).unwrap() else { panic!("not done yet") };
        fs_err::write(pending.dir().join("weights"), "1 2 3").unwrap();
        let record = pending.commit(record).unwrap();
        (store, record)
    }

    fn options() -> Options {
        Options { key: None, trust: Trusting::Any, timeout: Duration::from_mins(1) }
    }

    #[test]
    fn addresses_are_checked() {
        for (address, reason) in [
            ("bucket", "no scheme"),
            ("ftp://host/x", "not one of s3"),
            ("s3:///x", "no bucket"),
            ("s3://key:secret@bucket", "from the environment"),
            ("az://c/x?sig=1", "must end with the path"),
            ("file:///no/such/folder", "the folder does not exist"),
        ] {
            let error = Remote::open(address, &options()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains("sig=1"), "{error}");
        }
    }

    #[test]
    fn a_folder_is_a_remote() {
        let (source_folder, target_folder, folder) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, record) = store_with_one(source_folder.path());
        let remote = Remote::open(&format!("file://{}", folder.path().display()), &options()).unwrap();
        remote.push(&store, record.key).unwrap();
        assert_eq!(remote.keys().unwrap(), [record.key]);
        let target_store = Store::new(target_folder.path());
        let missing_key: Key = "0".repeat(64).parse().unwrap();
        let summary = remote.pull(&target_store, &[record.key, missing_key], &Arriving::default()).unwrap();
        assert_eq!(summary, Pulled { added: 1, missing: 1, ..Pulled::default() });
        assert_eq!(target_store.get(record.key).unwrap().unwrap(), record);
        assert_eq!(target_store.verify().unwrap().defects, []);
        let origin = target_store.origin(record.key).unwrap();
        assert_eq!((origin.from.as_str(), origin.signed), (remote.name(), None));
    }

    #[test]
    fn the_record_of_another_job_is_refused() {
        let (source_folder, target_folder, folder) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (store, record) = store_with_one(source_folder.path());
        let remote = Remote::open(&format!("file://{}", folder.path().display()), &options()).unwrap();
        remote.push(&store, record.key).unwrap();
        let other_key: Key = "ab".repeat(32).parse().unwrap();
        let place = |key: Key| folder.path().join("records").join(&key.to_string()[..2]).join(key.to_string());
        fs_err::create_dir_all(place(other_key).parent().unwrap()).unwrap();
        fs_err::copy(place(record.key), place(other_key)).unwrap();
        let summary = remote.pull(&Store::new(target_folder.path()), &[other_key], &Arriving::default()).unwrap();
        let (refused_key, reason) = &summary.refused[0];
        assert_eq!(*refused_key, other_key);
        assert!(reason.contains("the record of another job"), "{reason}");
    }
}
