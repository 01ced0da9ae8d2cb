//! Answers of other programs, within limits of time and length.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
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

/// The end of a program, with what it wrote.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// Its exit status; `None` if it had not ended in time and was killed.
    pub(crate) status: Option<ExitStatus>,
    /// The beginning of its standard output.
    pub(crate) out: String,
    /// The beginning of its standard error.
    pub(crate) complaint: String,
    /// True if `out` is the whole standard output.
    pub(crate) whole: bool,
}

impl Conversation {
    /// True if it has ended with success.
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a program with this input to its end, and returns what it wrote, of which at most `most` bytes of each output are kept. One
/// that has not ended at `until` is killed, with its children. What it wrote before counts.
///
/// # Errors
/// It cannot be started.
pub(crate) fn converse(
    command: &mut Command,
    input: Option<&str>,
    most: usize,
    until: Instant,
) -> io::Result<Conversation> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
    let pipes = pipes(&mut child, input, most);
    let mut pause = Duration::from_micros(200);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until && pipes.is_ok() => thread::sleep(pause),
            Ok(None) | Err(_) => {
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                break None;
            }
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    // A grandchild may hold an output open, and then what has been read until now is not known.
    let written = |answer: Option<Receiver<io::Result<Answer>>>| {
        let answer = answer?.recv_timeout(Duration::from_secs(1)).ok()?.ok()?;
        let whole = answer.bytes == answer.text.len() as u64;
        Some((String::from_utf8_lossy(&answer.text).into_owned(), whole))
    };
    let (out, complaint) = pipes?;
    let (out, whole) = written(out).unwrap_or_default();
    let (complaint, _) = written(complaint).unwrap_or_default();
    Ok(Conversation { status, out, complaint, whole })
}

type Pipe = Option<Receiver<io::Result<Answer>>>;

/// Serves a program's input and outputs, in threads.
fn pipes(child: &mut Child, input: Option<&str>, most: usize) -> io::Result<(Pipe, Pipe)> {
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input.map(str::to_owned)) {
        // One that does not read says why on standard error.
        thread::Builder::new().name("input".into()).spawn(move || drop(stdin.write_all(input.as_bytes())))?;
    }
    let out = child.stdout.take().map(|out| read(out, most)).transpose()?;
    let complaint = child.stderr.take().map(|complaint| read(complaint, most)).transpose()?;
    Ok((out, complaint))
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

    #[test]
    fn a_conversation_has_input_both_outputs_and_an_end() {
        let until = || Instant::now() + Duration::from_mins(1);
        let shell = |script: &str, input: Option<&str>| {
            converse(Command::new("sh").args(["-c", script]), input, 100, until()).unwrap()
        };
        let said = shell("read line; echo \"got $line\"; echo no >&2; exit 3", Some("this\n"));
        assert_eq!((said.out.as_str(), said.complaint.as_str()), ("got this\n", "no\n"));
        assert_eq!(said.status.and_then(|status| status.code()), Some(3));
        assert!(!said.succeeded());
        // More than a pipe holds, in both directions at once.
        let large = "x".repeat(1 << 20);
        let said = shell("cat; cat /dev/null", Some(&large));
        assert!(said.succeeded() && said.out.len() == 100 && !said.whole, "{said:?}");
        assert!(shell("exit 0", Some(&large)).succeeded(), "it does not read");
        assert!(converse(&mut Command::new("/nothing/here"), None, 4, until()).is_err());
    }

    /// Without the limit, this test would take ten minutes.
    #[test]
    fn a_conversation_that_hangs_is_ended_with_its_children() {
        let until = Instant::now() + Duration::from_millis(300);
        let said = converse(Command::new("sh").args(["-c", "echo begun; sleep 600"]), None, 100, until).unwrap();
        assert!(said.status.is_none() && said.out == "begun\n", "{said:?}");
    }

    /// Without the limit, this test would take ten minutes.
    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        assert!(shell("sleep 600 & echo $!; wait", 100, Duration::from_millis(300)).is_none());
        assert!(shell("sleep 600 & exit 0", 100, Duration::from_millis(300)).is_none(), "it holds the output open");
    }
}
