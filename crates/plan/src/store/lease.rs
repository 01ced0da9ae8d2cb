//! Locks for a store that several machines use: a file that exists or not, with a heartbeat.
//!
//! `flock` is not enough for such a store: some network file systems ignore it, others lose it with the server. All of them correctly
//! create a hard link for one of several concurrent requests (NFS has had no other exclusive creation from its beginning), and take
//! modification times from one clock, the server's. A lease is therefore a file of the holder, linked to the lock's name and touched every
//! [`RENEWAL`]; it ends with its process, if this machine can see the process, or when it has not been touched for [`STALE`]. Its age is
//! measured against another file that is touched at that moment, so that no two clocks are compared, and no cached attribute is relied on.
//!
//! Only the [`Heir`] of a lock's holder removes or replaces the lock's name; it is a separate link, which only one process can create.
//! Otherwise, a process that has read the name before a take-over could remove the lease of the next holder.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use sweep_base::planted;
use tracing::warn;

use super::lock::remove_file_if_there;
use crate::host::{
    files::{self as fs, File},
    log, machine,
};

/// Interval at which a holder renews its lease.
const RENEWAL: Duration = Duration::from_secs(10);
/// Age at which a lease without renewal counts as abandoned: six renewals, and twice the time that NFS may cache an attribute.
const STALE: Duration = Duration::from_mins(2);

/// Holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    /// The holder's own file, by its name in the folder.
    own: String,
    host: String,
    /// The machine's current run, and the name space of process numbers: without them a number means nothing.
    boot: String,
    numbers: String,
    pid: u32,
    /// Start time of the process, in ticks of its machine: process numbers are reused.
    begun: u64,
    /// The job in Slurm, and how often that was started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slurm: Option<(String, u32)>,
}

/// A file that marks its process as alive while this value exists.
#[derive(Debug)]
pub struct Presence {
    path: PathBuf,
    file: Arc<File>,
}

/// A held lease.
#[derive(Debug)]
pub(super) struct Lease {
    path: PathBuf,
    own: Presence,
}

impl Owner {
    fn new(own_path: &Path) -> Self {
        #[cfg(feature = "simulate")]
        if let Some(fs::Place { host, boot, pid, begun }) = fs::place() {
            let own = own_path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            return Self { own, host, boot, numbers: String::new(), pid, begun, slurm: None };
        }
        let numbers = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let pid = std::process::id();
        let restart = std::env::var("SLURM_RESTART_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
        Self {
            own: own_path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: machine::boot(),
            numbers: numbers.to_string_lossy().into_owned(),
            pid,
            begun: machine::begun(pid).unwrap_or(0),
            slurm: std::env::var("SLURM_JOB_ID").ok().map(|id| (id, restart)),
        }
    }

    /// True if the holder lives, as `me` sees it; `None` if that is unknown here.
    fn lives(&self, me: &Self) -> Option<bool> {
        let location = |owner: &Self| (owner.host.clone(), owner.boot.clone(), owner.numbers.clone());
        if location(self) == location(me) && !self.boot.is_empty() {
            return Some(begun(self.pid) == Some(self.begun));
        }
        match (&self.slurm, &me.slurm) {
            // Slurm starts a job again when it has given up the machine on which it was.
            (Some((id, restart)), Some((own_id, own_restart))) if id == own_id && restart < own_restart => Some(false),
            _ => None,
        }
    }
}

/// Start of a process of this machine; `None` if it has ended.
fn begun(pid: u32) -> Option<u64> {
    #[cfg(feature = "simulate")]
    if let Some(begun) = fs::begun(pid) {
        return begun;
    }
    machine::begun(pid)
}

impl Presence {
    /// Announces in a new file that this process is alive.
    pub fn announce(path: &Path) -> io::Result<Self> {
        let mut file = fs::OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
        file.write_all(&serde_json::to_vec(&Owner::new(path))?)?;
        // The sync lets other machines see the whole file. A failed sync is ignored.
        let _ = file.sync_data();
        let presence = Self { path: path.to_owned(), file: Arc::new(file) };
        if cfg!(feature = "simulate") {
            // The machine's clock is not the simulated one.
            fs::touch(&presence.file)?;
        }
        keep_alive(&presence.file);
        Ok(presence)
    }

    /// True if the process that has created this file is alive; `None` if there is no such file.
    pub fn is_alive(path: &Path) -> Option<bool> {
        // Asked often and only a hint, so by this machine's clock.
        match look(path) {
            Ok(found) => Some(found?.is_alive(&Owner::new(path), hinted_now())),
            // An unreadable file may belong to a living process.
            Err(_) => Some(true),
        }
    }

    /// True if the process that has created another file in the store is alive, by the clock of the file server.
    pub(super) fn sees_alive(&self, path: &Path) -> io::Result<bool> {
        let now = now(self)?;
        Ok(look(path)?.is_some_and(|other| other.is_alive(&Owner::new(&self.path), now)))
    }

    /// The inode of its file; 0 if it is not known.
    fn inode(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.ino())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A lease as another process finds it.
struct Found {
    /// `None` for an incomplete file: its writer has died, or is still writing.
    owner: Option<Owner>,
    touched: SystemTime,
    inode: u64,
    /// The holder's own file is not there any more: the holder has ended or given the lease up, and could not remove the name.
    is_given_up: bool,
}

impl Found {
    fn is_alive(&self, me: &Owner, now: SystemTime) -> bool {
        if planted!(EternalLease) {
            return true;
        }
        if self.is_given_up {
            return false;
        }
        let is_living = self.owner.as_ref().and_then(|owner| owner.lives(me));
        let is_in_future = now < self.touched && !planted!(ClockBack);
        is_living.unwrap_or_else(|| now.duration_since(self.touched).is_ok_and(|age| age < STALE) || is_in_future)
    }

    /// True if it is the same lease: the name of a holder's own file is used once.
    fn is(&self, other: &Self) -> bool {
        match (&self.owner, &other.owner) {
            (Some(owner), Some(other)) => owner == other,
            (None, None) => self.inode == other.inode,
            _ => false,
        }
    }
}

/// The lease at a path; `None` without a lease. After an error, the lease may still belong to a living process.
fn look(path: &Path) -> io::Result<Option<Found>> {
    let read = |path: &Path| -> io::Result<_> {
        let mut file = File::open(path)?;
        let (metadata, mut text) = (file.metadata()?, Vec::new());
        file.read_to_end(&mut text)?;
        Ok((metadata, text))
    };
    let (metadata, text) = match read(path) {
        Ok(found) => found,
        // Network file systems have a separate error for a file that another machine has removed.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let owner: Option<Owner> = serde_json::from_slice(&text).ok();
    let own = owner.as_ref().and_then(|owner| own_file(path, owner));
    // A name that this machine has never looked up is in no cache of missing names.
    let is_given_up = own.is_some_and(|own| is_missing(&own));
    Ok(Some(Found { owner, touched: metadata.modified()?, inode: metadata.ino(), is_given_up }))
}

impl Lease {
    /// Takes the lease `name`; returns `None` while another process holds it.
    pub(super) fn try_take(folder: &Path, name: &str) -> io::Result<Option<Self>> {
        fs::create_dir_all(folder)?;
        let path = folder.join(name);
        let presence = Presence::announce(&folder.join(format!("{name}.{}", unique())))?;
        let me = Owner::new(&presence.path);
        // Each turn takes a dead holder away; there are not many.
        for _ in 0..10 {
            match fs::hard_link(&presence.path, &path) {
                Ok(()) => return Ok(Some(Self { path, own: presence })),
                // This process did not renew the lease in time, and another process removed its file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                // The response to the first request may have been lost: then the link exists.
                Err(_) if presence.file.metadata()?.nlink() > 1 => return Ok(Some(Self { path, own: presence })),
                Err(_) => {}
            }
            let now = now(&presence)?;
            match look(&path)? {
                Some(holder) if holder.is_alive(&me, now) => return Ok(None),
                Some(holder) if planted!(LeaseWithoutHeir) => {
                    let _ = look(&path)?.filter(|found| found.is(&holder)).map(|_| fs::remove_file(&path));
                }
                Some(holder) => {
                    let Some(heir) = Heir::of(&path, &holder, &presence, now)? else { return Ok(None) };
                    if heir.take_over(&holder)? {
                        return Ok(Some(Self { path, own: presence }));
                    }
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// True if a process seems to hold the lease of this name; only a request for the lease shows it with certainty.
    pub(super) fn is_held(folder: &Path, name: &str) -> bool {
        Presence::is_alive(&folder.join(name)).unwrap_or(false)
    }

    /// True if another process has taken it over, because this process has not renewed it in time.
    pub(super) fn is_lost(&self) -> bool {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.ino()) != self.own.inode()
    }

    /// True if the process that has created a file in the store is alive, by the clock of the file server.
    pub(super) fn sees_alive(&self, path: &Path) -> io::Result<bool> {
        self.own.sees_alive(path)
    }

    /// A name that no other holder has.
    pub(super) fn name(&self) -> String {
        self.own.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Removes the lock's name, if this lease has it. A process that is taking the lease over keeps its right to do so.
    fn release(&self) -> io::Result<()> {
        if planted!(LeaseOfAnother) {
            return fs::remove_file(&self.path);
        }
        let Some(holder) = look(&self.path)?.filter(|_| !self.is_lost()) else { return Ok(()) };
        let heir = heir_of(&self.path, &holder);
        fs::hard_link(&self.own.path, &heir)?;
        let removed = if self.is_lost() { Ok(()) } else { fs::remove_file(&self.path) };
        fs::remove_file(&heir)?;
        removed
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If the name remains, it is taken over like the name of a dead process.
        let _ = self.release();
    }
}

/// Name of the link that gives the right to change the lock's name while `holder` has it.
fn heir_of(path: &Path, holder: &Found) -> PathBuf {
    let own = holder.owner.as_ref().and_then(|owner| own_file(path, owner));
    // A torn lease does not contain the name of its holder's file.
    with_suffix(&own.unwrap_or_else(|| with_suffix(path, &format!(".{}", holder.inode))), HEIR)
}

/// End of the name of an heir's link.
const HEIR: &str = ".heir";

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The right to replace the lock's name while a dead holder has it, as a link to the heir's own file. If an heir dies, its link has
/// an heir itself.
struct Heir<'a> {
    path: &'a Path,
    link: PathBuf,
    own: &'a Presence,
    /// Links of dead heirs, and the files of them and of the dead holder.
    left: Vec<PathBuf>,
}

impl<'a> Heir<'a> {
    /// Requests the right to take over the lock `path` from `holder` at the time `now`; `None` while another process has this right.
    fn of(path: &'a Path, holder: &Found, own: &'a Presence, now: SystemTime) -> io::Result<Option<Self>> {
        /// Maximum number of heirs that died one after another in the same take-over.
        const MAX_DEAD: usize = 10;
        let me = Owner::new(&own.path);
        let own_of = |found: &Found| found.owner.as_ref().and_then(|owner| own_file(path, owner));
        let (mut link, mut left) = (heir_of(path, holder), Vec::from_iter(own_of(holder)));
        for _ in 0..MAX_DEAD {
            match fs::hard_link(&own.path, &link) {
                Ok(()) => return Ok(Some(Self { path, link, own, left })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if own.file.metadata()?.nlink() > 1 => return Ok(Some(Self { path, link, own, left })),
                Err(_) => {}
            }
            match look(&link)? {
                Some(heir) if heir.is_alive(&me, now) => return Ok(None),
                Some(heir) => {
                    left.push(link.clone());
                    left.extend(own_of(&heir));
                    link = with_suffix(&link, HEIR);
                }
                // It has been given back.
                None => {}
            }
        }
        Ok(None)
    }

    /// Gives the lock's name to the heir's own file, unless the dead holder has lost it already. `true` if the heir has it now.
    fn take_over(self, holder: &Found) -> io::Result<bool> {
        let found = look(self.path);
        if !matches!(&found, Ok(Some(found)) if found.is(holder)) {
            remove_file_if_there(&self.link)?;
            return found.map(|_| false);
        }
        match fs::rename(&self.link, self.path) {
            // The response to the first request may have been lost; or this process was silent, and the next heir has taken over.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if look(self.path)?.is_none_or(|found| found.inode != self.own.inode()) {
                    return Ok(false);
                }
            }
            renamed => renamed?,
        }
        let (host, pid) = holder.owner.as_ref().map(|owner| (owner.host.as_str(), owner.pid)).unzip();
        warn!(target: log::CLAIM, host, pid, "took over the lease of a holder that is dead or silent");
        for path in &self.left {
            let _ = fs::remove_file(path);
        }
        Ok(true)
    }
}

/// The own file of the holder `owner` of the lock `path`, beside it.
fn own_file(path: &Path, owner: &Owner) -> Option<PathBuf> {
    (!owner.own.contains('/') && !owner.own.is_empty()).then(|| path.with_file_name(&owner.own))
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A unique name: this machine's, this process's, and a number.
pub(super) fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static RANDOM: LazyLock<String> = LazyLock::new(|| {
        let me = Owner::new(Path::new(""));
        let seed = format!("{me:?}{:?}", SystemTime::now());
        blake3::hash(seed.as_bytes()).to_hex()[..12].to_owned()
    });
    format!("{}-{}", *RANDOM, COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The time of the file server, by which a file of this process is touched.
fn now(own: &Presence) -> io::Result<SystemTime> {
    fs::touch(&own.file)?;
    if planted!(OwnClock) {
        return Ok(hinted_now());
    }
    own.file.metadata()?.modified()
}

/// The time by this machine's clock.
fn hinted_now() -> SystemTime {
    #[cfg(feature = "simulate")]
    if let Some(now) = fs::local_now() {
        return now;
    }
    SystemTime::now()
}

/// Touches a file from now on, until it is dropped.
fn keep_alive(file: &Arc<File>) {
    static FILES: LazyLock<Mutex<Vec<Weak<File>>>> = LazyLock::new(|| {
        // A process that cannot have another thread has other worries.
        let _ = thread::Builder::new().name("leases".into()).spawn(|| {
            loop {
                thread::sleep(RENEWAL);
                let live_files: Vec<Arc<File>> = {
                    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
                    files.retain(|file| file.strong_count() > 0);
                    files.iter().filter_map(Weak::upgrade).collect()
                };
                for file in live_files {
                    // A disk that does not respond now may respond at the next renewal.
                    let _ = fs::touch(&file);
                }
            }
        });
        Mutex::default()
    });
    #[cfg(feature = "simulate")]
    if fs::keep_alive(file) {
        return;
    }
    FILES.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(file));
}

#[cfg(test)]
mod tests;
