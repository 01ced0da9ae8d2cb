//! Answers of other programs, within limits of time and length.

use std::{
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Output of a program that ended with success.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The beginning of its standard output.
    pub(crate) text: Vec<u8>,
    /// The length of the whole output in bytes.
    pub(crate) bytes: u64,
    /// The BLAKE3 digest of the whole output.
    pub(crate) digest: blake3::Hash,
}

/// Runs a program that reads nothing, and returns its output, of which at most `most` bytes are kept. `None` if it cannot be
/// started, fails, or has not ended at `until`; then it is killed, with its children.
pub(crate) fn ask(command: &mut Command, most: usize, until: Instant) -> Option<Answer> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn().ok()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let answer = child.stdout.take().and_then(|stdout| read(stdout, most).ok()).and_then(|answer| {
        match answer.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(answer) => answer.ok(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    });
    // A program that has closed its output is about to end.
    while answer.is_some() && Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return answer.filter(|_| status.success()),
            Ok(None) => thread::sleep(Duration::from_micros(200)),
            Err(_) => break,
        }
    }
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    None
}

/// Reads an output to its end in a thread, because a grandchild may keep it open.
fn read(mut output: impl io::Read + Send + 'static, most: usize) -> io::Result<Receiver<io::Result<Answer>>> {
    let (sender, receiver) = channel();
    let work = move || {
        let mut hasher = blake3::Hasher::new();
        let mut text = Vec::new();
        let mut read = || -> io::Result<()> {
            output.by_ref().take(most as u64).read_to_end(&mut text)?;
            hasher.update(&text);
            hasher.update_reader(&mut output)?;
            Ok(())
        };
        let ended = read();
        let (bytes, digest) = (hasher.count(), hasher.finalize());
        let _ = sender.send(ended.map(|()| Answer { text, bytes, digest }));
    };
    thread::Builder::new().name("answer".into()).spawn(work)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, most: usize, limit: Duration) -> Option<Answer> {
        ask(Command::new("sh").args(["-c", script]), most, Instant::now() + limit)
    }

    #[test]
    fn an_answer_is_cut_and_its_digest_is_that_of_the_whole() {
        let patience = Duration::from_mins(1);
        let answer = shell("printf 'abcdef'", 4, patience).unwrap();
        assert_eq!((answer.text.as_slice(), answer.bytes), (&b"abcd"[..], 6));
        assert_eq!(answer.digest, blake3::hash(b"abcdef"));
        assert!(shell("printf x; exit 3", 4, patience).is_none(), "a failure is no answer");
        assert!(ask(&mut Command::new("/nothing/here"), 4, Instant::now() + patience).is_none());
    }

    /// Without the limit, this test would take ten minutes.
    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        assert!(shell("sleep 600 & echo $!; wait", 100, Duration::from_millis(300)).is_none());
        assert!(shell("sleep 600 & exit 0", 100, Duration::from_millis(300)).is_none(), "it holds the output open");
    }
}
