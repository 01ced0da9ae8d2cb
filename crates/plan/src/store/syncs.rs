//! Syncs to the disk that several commits share: a sync of the whole file system covers everything that they have written.

use std::{
    path::Path,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::disk;

/// Time that a commit waits for others to join its sync.
const GATHER_TIME: Duration = Duration::from_millis(5);
/// Time above which a sync of the whole file system is slower than many of single files: other processes write much to it.
const SLOW: Duration = Duration::from_millis(100);
/// Time after a slow sync, as a multiple of its duration, in which commits sync only their own files.
const REST: u32 = 20;

/// The commits of this process that are in progress, and the syncs that they share.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Commits in progress.
    commits: usize,
    /// Commits that wait for a sync which has not begun.
    waiting: usize,
    /// Number of syncs that have begun.
    begun: u64,
    /// True while a sync is in progress.
    running: bool,
    /// Number of the last sync that has ended, and of the last successful sync.
    ended: u64,
    good: u64,
    /// No sync begins before that: the last one was slow.
    rests: Option<Instant>,
}

/// A commit in progress.
#[derive(Debug)]
pub(super) struct Commit<'a>(&'a Syncs);

impl Syncs {
    /// Announces a commit, for which others may wait.
    pub(super) fn join(&self) -> Commit<'_> {
        self.lock().commits += 1;
        Commit(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commit<'_> {
    /// Waits for a sync of the file system of `folder` that begins from now on, and is shared with the other commits in progress. Returns
    /// false without such commits, if the sync failed, or if the last sync was slow; this commit then syncs its own files.
    pub(super) fn shares_sync(&self, folder: &Path) -> bool {
        let mut state = self.0.lock();
        if state.commits < 2 || state.rests.is_some_and(|deadline| Instant::now() < deadline) {
            return false;
        }
        drop(state);
        let Ok(Some(disk)) = disk::local(folder) else { return false };
        state = self.0.lock();
        state.waiting += 1;
        let (needed_sync, deadline) = (state.begun + 1, Instant::now() + GATHER_TIME);
        loop {
            if state.ended >= needed_sync {
                // A later sync that has ended meanwhile covers this commit, too.
                return state.good >= needed_sync;
            }
            let remaining_time = deadline.saturating_duration_since(Instant::now());
            if !state.running
                && state.begun < needed_sync
                && (remaining_time.is_zero() || state.waiting >= state.commits)
            {
                (state.running, state.begun, state.waiting) = (true, needed_sync, 0);
                drop(state);
                let start = Instant::now();
                let has_synced = disk.sync().is_ok();
                let duration = start.elapsed();
                state = self.0.lock();
                (state.running, state.ended) = (false, needed_sync);
                state.rests = (duration >= SLOW).then(|| Instant::now() + duration * REST);
                if has_synced {
                    state.good = needed_sync;
                }
                self.0.changed.notify_all();
                continue;
            }
            // While a sync is in progress, the commit waits for its end.
            let wait = if state.running { Duration::MAX } else { remaining_time };
            state = self.0.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        self.0.lock().commits -= 1;
        // Other commits waited for this sync.
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn a_commit_alone_syncs_its_own_files() {
        let (syncs, folder) = (Syncs::default(), tempfile::tempdir_in("/dev/shm").unwrap());
        let commit = syncs.join();
        assert!(!commit.shares_sync(folder.path()));
        drop(commit);
        assert_eq!(syncs.lock().commits, 0);
    }

    #[test]
    fn commits_that_overlap_share_syncs() {
        const THREADS: usize = 8;
        const ROUNDS: u64 = 20;
        let (syncs, folder) = (Syncs::default(), tempfile::tempdir_in("/dev/shm").unwrap());
        let barrier = Barrier::new(THREADS);
        let run_rounds = || {
            let mut shared = 0;
            for _ in 0..ROUNDS {
                let commit = syncs.join();
                barrier.wait();
                syncs.lock().rests = None;
                shared += u64::from(commit.shares_sync(folder.path()));
                barrier.wait();
                drop(commit);
                barrier.wait();
            }
            shared
        };
        let shared: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run_rounds)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let state = syncs.lock();
        assert_eq!((shared, state.commits, state.waiting), (ROUNDS * THREADS as u64, 0, 0));
        assert!(state.ended >= ROUNDS && state.ended < shared, "{} syncs for {shared} commits", state.ended);
    }

    #[test]
    fn a_commit_does_not_wait_for_one_that_does_not_sync() {
        let (syncs, folder) = (Syncs::default(), tempfile::tempdir_in("/dev/shm").unwrap());
        let (_slow_commit, commit) = (syncs.join(), syncs.join());
        assert!(commit.shares_sync(folder.path()), "after the pause");
    }

    #[test]
    fn a_sync_that_had_begun_before_is_not_enough() {
        let (syncs, folder) = (Syncs::default(), tempfile::tempdir_in("/dev/shm").unwrap());
        let (_other_commit, commit) = (syncs.join(), syncs.join());
        let mut state = syncs.lock();
        (state.begun, state.running) = (1, true);
        drop(state);
        thread::scope(|scope| {
            let waits = scope.spawn(|| commit.shares_sync(folder.path()));
            while syncs.lock().waiting == 0 {
                thread::yield_now();
            }
            let mut state = syncs.lock();
            (state.running, state.ended, state.good) = (false, 1, 1);
            drop(state);
            syncs.changed.notify_all();
            assert!(waits.join().unwrap());
        });
        let state = syncs.lock();
        assert_eq!((state.begun, state.good), (2, 2));
    }
}
