//! Locks for a store that several machines use: a file that exists or not, with a heartbeat.
//!
//! `flock` is not enough for such a store: some network file systems ignore it, others lose it with the server. All of
//! them correctly create a hard link for one of several concurrent requests (NFS has had no other exclusive creation
//! from its beginning), and take modification times from one clock, the server's. So a lease is a file of the holder,
//! linked to the lock's name and touched every [`RENEWAL`]; it ends with its process, if this machine can see the
//! process, or when it has not been touched for [`STALE`]. Its age is measured against another file that is touched at
//! that moment, so that no two clocks are compared, and no cached attribute is relied on.

use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use fs_err as fs;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::host::{log, machine};

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
            return Some(machine::begun(self.pid) == Some(self.begun));
        }
        match (&self.slurm, &me.slurm) {
            // Slurm starts a job again when it has given up the machine on which it was.
            (Some((id, restart)), Some((own_id, own_restart))) if id == own_id && restart < own_restart => Some(false),
            _ => None,
        }
    }
}

impl Presence {
    /// Says in a new file that this process is alive.
    pub fn announce(path: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
        let presence = Self { path: path.to_owned(), file: Arc::new(file.into_file()) };
        serde_json::to_writer(&*presence.file, &Owner::new(path))?;
        // The sync lets other machines see the whole file. A failed sync is ignored.
        let _ = presence.file.sync_data();
        keep_alive(&presence.file);
        Ok(presence)
    }

    /// True if the process that has made this file is alive; `None` if there is no such file.
    pub fn is_alive(path: &Path) -> Option<bool> {
        // Asked often and only a hint, so by this machine's clock.
        Some(look(path)?.is_alive(&Owner::new(path), SystemTime::now()))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A lease as another process finds it.
struct Found {
    /// `None` for an incomplete file: its writer has died, or is still writing.
    owner: Option<Owner>,
    touched: SystemTime,
    inode: u64,
}

impl Found {
    fn is_alive(&self, me: &Owner, now: SystemTime) -> bool {
        let is_living = self.owner.as_ref().and_then(|owner| owner.lives(me));
        is_living.unwrap_or_else(|| now.duration_since(self.touched).is_ok_and(|age| age < STALE) || now < self.touched)
    }
}

fn look(path: &Path) -> Option<Found> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let owner = serde_json::from_reader(&file).ok();
    Some(Found { owner, touched: metadata.modified().ok()?, inode: metadata.ino() })
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
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                // The response to the first request may have been lost: then the link exists.
                Err(_) if presence.file.metadata()?.nlink() > 1 => return Ok(Some(Self { path, own: presence })),
                Err(_) => {}
            }
            futimens(&*presence.file, &now())?;
            // The file server gives the time.
            let now = presence.file.metadata()?.modified()?;
            match look(&path) {
                Some(holder) if holder.is_alive(&me, now) => return Ok(None),
                Some(holder) => take_away(folder, &path, &holder, &me.own)?,
                None => {}
            }
        }
        Ok(None)
    }

    /// True if a process seems to hold the lease of this name; only a request for the lease shows it with certainty.
    pub(super) fn is_held(folder: &Path, name: &str) -> bool {
        Presence::is_alive(&folder.join(name)).unwrap_or(false)
    }

    /// True if another process has taken it over, because this one has not renewed it for too long.
    pub(super) fn is_lost(&self) -> bool {
        let inode = |metadata: io::Result<std::fs::Metadata>| metadata.map(|metadata| metadata.ino()).ok();
        inode(std::fs::metadata(&self.path)) != inode(self.own.file.metadata())
    }

    /// True if the process that has made a file beside it is alive, by the clock of the file server.
    pub(super) fn sees_alive(&self, path: &Path) -> io::Result<bool> {
        futimens(&*self.own.file, &now())?;
        let now = self.own.file.metadata()?.modified()?;
        Ok(look(path).is_some_and(|holder| holder.is_alive(&Owner::new(&self.own.path), now)))
    }

    /// A name that no other holder has.
    pub(super) fn name(&self) -> String {
        self.own.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_lost() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Takes over a dead holder's lease. Of several processes that do so at once, one may take a lease that another has
/// just taken: it puts that lease back.
fn take_away(folder: &Path, path: &Path, dead_holder: &Found, own_name: &str) -> io::Result<()> {
    let aside_path = folder.join(format!("{own_name}.aside"));
    match fs::rename(path, &aside_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(()) => {}
    }
    if fs::metadata(&aside_path)?.ino() == dead_holder.inode {
        let (host, pid) = dead_holder.owner.as_ref().map(|owner| (owner.host.as_str(), owner.pid)).unzip();
        warn!(target: log::CLAIM, host, pid, "took over the lease of a holder that is dead or silent");
        if let Some(owner) =
            dead_holder.owner.as_ref().filter(|owner| !owner.own.contains('/') && !owner.own.is_empty())
        {
            let _ = std::fs::remove_file(folder.join(&owner.own));
        }
    } else {
        let _ = std::fs::hard_link(&aside_path, path);
    }
    fs::remove_file(&aside_path)
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

fn now() -> Timestamps {
    // The server's time, not this machine's.
    let now = || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now(), last_modification: now() }
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
                    let _ = futimens(&*file, &now());
                }
            }
        });
        Mutex::default()
    });
    FILES.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(file));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(folder: &Path, change: impl FnOnce(&mut Owner)) {
        let own_path = folder.join("x.other");
        let mut owner = Owner::new(&own_path);
        change(&mut owner);
        fs::write(&own_path, serde_json::to_vec(&owner).unwrap()).unwrap();
        fs::hard_link(&own_path, folder.join("x")).unwrap();
    }

    fn age(path: &Path, by: Duration) {
        File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - by).unwrap();
    }

    #[test]
    fn one_holder_at_a_time_and_nothing_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let lease = Lease::try_take(folder.path(), "x").unwrap().unwrap();
        assert!(Lease::try_take(folder.path(), "x").unwrap().is_none() && Lease::is_held(folder.path(), "x"));
        assert!(!lease.is_lost());
        drop(lease);
        assert!(!Lease::is_held(folder.path(), "x"));
        drop(Lease::try_take(folder.path(), "x").unwrap().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn of_many_who_ask_at_once_one_gets_it_whoever_held_it_before() {
        for is_dead in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            if is_dead {
                holder(folder.path(), |owner| owner.pid = u32::MAX);
            }
            let leases: Vec<Option<Lease>> = thread::scope(|scope| {
                let askers: Vec<_> =
                    (0..16).map(|_| scope.spawn(|| Lease::try_take(folder.path(), "x").unwrap())).collect();
                askers.into_iter().map(|asker| asker.join().unwrap()).collect()
            });
            let held_leases: Vec<&Lease> = leases.iter().flatten().filter(|lease| !lease.is_lost()).collect();
            assert_eq!(held_leases.len(), 1, "the holder before was dead: {is_dead}");
        }
    }

    #[test]
    fn the_dead_are_told_from_the_living() {
        type Change = fn(&mut Owner);
        let move_elsewhere: Change = |owner| owner.host = "elsewhere".into();
        for (change, is_silent, is_held) in [
            ((|_| {}) as Change, false, true),
            // This process lives, however late it is.
            (|_| {}, true, true),
            (|owner| owner.begun += 1, false, false),
            // The process is not visible from this machine: only the age of its lease counts.
            (move_elsewhere, false, true),
            (move_elsewhere, true, false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            holder(folder.path(), change);
            if is_silent {
                age(&folder.path().join("x"), STALE + RENEWAL);
            }
            assert_eq!(Lease::is_held(folder.path(), "x"), is_held);
            assert_eq!(Lease::try_take(folder.path(), "x").unwrap().is_none(), is_held);
        }
    }

    #[test]
    fn slurm_takes_over_from_its_own_earlier_start_only() {
        let owner = |host: &str, slurm: Option<(&str, u32)>| Owner {
            host: host.into(),
            slurm: slurm.map(|(id, restart)| (id.to_owned(), restart)),
            ..Owner::new(Path::new("x"))
        };
        let me = owner("b", Some(("7", 1)));
        assert_eq!(owner("a", Some(("7", 0))).lives(&me), Some(false));
        assert_eq!(owner("a", Some(("7", 1))).lives(&me), None, "another task of the same job");
        assert_eq!(owner("a", Some(("8", 0))).lives(&me), None);
    }

    #[test]
    fn whoever_was_silent_for_too_long_is_told_that_it_has_lost() {
        let folder = tempfile::tempdir().unwrap();
        let lease = Lease::try_take(folder.path(), "x").unwrap().unwrap();
        let holder = look(&lease.path).unwrap();
        take_away(folder.path(), &lease.path, &holder, "other").unwrap();
        assert!(lease.is_lost());
        let next_lease = Lease::try_take(folder.path(), "x").unwrap().unwrap();
        drop(lease);
        assert!(!next_lease.is_lost(), "the old holder does not take the new one's away");
    }
}
