//! Work that several threads share, with as many threads as the system provides.

use std::{io, panic::resume_unwind, thread};

/// Processes each part, in parallel as far as there are threads, and returns results in the order of the parts.
pub(crate) fn each<P: Copy + Send, T: Send>(parts: &[P], work: impl Fn(P) -> T + Sync) -> Vec<T> {
    let (Some((last, others)), work) = (parts.split_last(), &work) else { return Vec::new() };
    thread::scope(|scope| {
        let started: Vec<_> = others
            .iter()
            .map(|part| {
                let part = *part;
                thread::Builder::new().spawn_scoped(scope, move || work(part)).map_err(|_| part)
            })
            .collect();
        let last = work(*last);
        let ended = started.into_iter().map(|started| match started {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(part) => work(part),
        });
        ended.chain([last]).collect()
    })
}

/// Error for a process or thread that could not be started, with a remedy if the system has too many.
pub(crate) fn refused(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::WouldBlock {
        return error;
    }
    let text = format!("the system cannot start more processes or threads for this user (`ulimit -u`): {error}");
    io::Error::new(io::ErrorKind::WouldBlock, text)
}
