//! Work that several threads share, even if the system provides fewer threads than requested, and threads that are kept for
//! further work.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// Work for a kept thread.
struct Work(Box<Call>);

/// A function that gets the sender by which its thread can be reached, and returns whether that thread is kept.
type Call = dyn FnOnce(&Sender<Work>) -> bool + Send;

/// Maximum number of kept threads, equal to the number of threads that follow and observe one program.
const MAX_IDLE_THREADS: usize = 6;

/// The kept threads that have nothing to do.
static IDLE: Mutex<Vec<Sender<Work>>> = Mutex::new(Vec::new());

/// Work that another thread does.
#[derive(Debug)]
pub struct Started<T>(Receiver<T>);

/// The work has panicked, with a message on standard error.
#[derive(Debug, thiserror::Error)]
#[error("a thread has panicked")]
pub struct Panicked;

impl<T> Started<T> {
    /// Waits for the end of the work, and returns its result.
    pub fn join(self) -> Result<T, Panicked> {
        self.0.recv().map_err(|_| Panicked)
    }
}

/// Does `work` in another thread: a kept one, or a new one, which is kept unless enough threads are. Meant for many pieces
/// of work, one after the other.
pub fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Started<T>> {
    let (sender, receiver) = channel();
    let work = Work(Box::new(move |own_sender| {
        let result = catch_unwind(AssertUnwindSafe(work));
        // The thread is registered as idle first, so that a caller that waits for the result finds it.
        let mut idle_threads = idle();
        let is_kept = idle_threads.len() < MAX_IDLE_THREADS;
        if is_kept {
            idle_threads.push(own_sender.clone());
        }
        drop(idle_threads);
        if let Ok(result) = result {
            let _ = sender.send(result);
        }
        is_kept
    }));
    let thread = idle().pop();
    match thread {
        Some(thread) => thread.send(work).or_else(|error| keep(error.0))?,
        None => keep(work)?,
    }
    Ok(Started(receiver))
}

/// Number of kept threads that have nothing to do.
pub fn idle_count() -> usize {
    idle().len()
}

fn idle() -> MutexGuard<'static, Vec<Sender<Work>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(first: Work) -> io::Result<()> {
    let (work_sender, work_receiver) = channel();
    let run = move || {
        let mut next_work = Some(first);
        while let Some(Work(work)) = next_work {
            next_work = if work(&work_sender) { work_receiver.recv().ok() } else { None };
        }
    };
    thread::Builder::new().name("kept".into()).spawn(run).map(drop)
}

/// Processes the parts, in parallel if threads can be started, and returns results in the order of the parts.
pub fn each<P: Copy + Send, T: Send>(parts: &[P], work: impl Fn(P) -> T + Sync) -> Vec<T> {
    let (Some((last_part, other_parts)), work) = (parts.split_last(), &work) else { return Vec::new() };
    thread::scope(|scope| {
        let threads: Vec<_> = other_parts
            .iter()
            .map(|part| {
                let part = *part;
                thread::Builder::new().spawn_scoped(scope, move || work(part)).map_err(|_| part)
            })
            .collect();
        let last_result = work(*last_part);
        let results = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(part) => work(part),
        });
        results.chain([last_result]).collect()
    })
}

/// Error for a process or thread that could not be started, with a remedy if the system has too many.
pub fn refused(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::WouldBlock {
        return error;
    }
    let text = format!("the system cannot start more processes or threads for this user (`ulimit -u`): {error}");
    io::Error::new(io::ErrorKind::WouldBlock, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_kept_for_further_work_whatever_became_of_the_first() {
        let current_id = || thread::current().id();
        let first = start(current_id).unwrap().join().unwrap();
        assert!(idle_count() >= 1);
        assert!(start(|| -> u32 { panic!("on purpose") }).unwrap().join().is_err());
        let results: Vec<_> = (0..4).map(|number| start(move || (number, current_id())).unwrap()).collect();
        let results: Vec<_> = results.into_iter().map(|task| task.join().unwrap()).collect();
        assert!(results.iter().map(|(number, _)| *number).eq(0..4));
        assert!(results.iter().any(|(_, id)| *id == first) && first != current_id());
        let tasks: Vec<_> = (0..4 * MAX_IDLE_THREADS).map(|_| start(|| ()).unwrap()).collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert!(idle_count() <= MAX_IDLE_THREADS);
    }
}
