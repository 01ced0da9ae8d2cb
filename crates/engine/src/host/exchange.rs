//! Exchanges with other programs: a text in, a text out, within limits of time and length.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

/// End of a program that was given a text.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Its exit status; `None` if it had not ended in time and was killed, with its children.
    pub(crate) status: Option<ExitStatus>,
    /// The beginning of its standard output, at most one byte more than was asked for.
    pub(crate) output: Vec<u8>,
    /// The end of its standard error.
    pub(crate) errors: String,
}

/// The longest end of standard error that is kept, in bytes.
const TAIL: usize = 2000;

/// Runs a program, writes `input` to its standard input, and reads its output: at most `most` bytes, and one more, which
/// tells that it is too long. Fails if the program cannot be started.
pub(crate) fn exchange(command: &mut Command, input: Vec<u8>, most: usize, limit: Duration) -> io::Result<Reply> {
    let until = Instant::now() + limit;
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.process_group(0).spawn()?;
    let streams = streams(&mut child, input, most);
    let (output, errors) = match streams {
        Ok(streams) => streams,
        Err(error) => {
            end(&mut child);
            return Err(error);
        }
    };
    let received = |stream: &Receiver<Vec<u8>>| stream.recv_timeout(until.saturating_duration_since(Instant::now()));
    let output = received(&output);
    let errors = received(&errors);
    let mut status = None;
    // A program that has closed its outputs is about to end.
    while output.is_ok() && errors.is_ok() && Instant::now() < until {
        status = child.try_wait()?;
        if status.is_some() {
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    if status.is_none() {
        end(&mut child);
    }
    let errors = String::from_utf8_lossy(&errors.unwrap_or_default()).trim().to_owned();
    Ok(Reply { status, output: output.unwrap_or_default(), errors })
}

/// Ends a program with its children.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

type Streams = (Receiver<Vec<u8>>, Receiver<Vec<u8>>);

/// Feeds a program and reads it to its end, in threads, because each of the streams may block.
fn streams(child: &mut Child, input: Vec<u8>, most: usize) -> io::Result<Streams> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read all of it says so by its answer.
        let feed = move || stdin.write_all(&input).unwrap_or_default();
        thread::Builder::new().name("question".into()).spawn(feed)?;
    }
    let (output, errors) = (channel(), channel());
    if let Some(mut stdout) = child.stdout.take() {
        let read = move || {
            let mut text = Vec::new();
            let _ = stdout.by_ref().take(most as u64 + 1).read_to_end(&mut text);
            // The rest is read as well, so that the program does not block.
            let _ = io::copy(&mut stdout, &mut io::sink());
            let _ = output.0.send(text);
        };
        thread::Builder::new().name("answer".into()).spawn(read)?;
    }
    if let Some(mut stderr) = child.stderr.take() {
        let read = move || {
            let (mut tail, mut part) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stderr.read(&mut part) {
                tail.extend_from_slice(&part[..read]);
                let surplus = tail.len().saturating_sub(TAIL);
                tail.drain(..surplus);
            }
            let _ = errors.0.send(tail);
        };
        thread::Builder::new().name("errors".into()).spawn(read)?;
    }
    Ok((output.1, errors.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &str, most: usize, limit: Duration) -> Reply {
        exchange(Command::new("sh").args(["-c", script]), input.into(), most, limit).unwrap()
    }

    #[test]
    fn a_program_reads_and_answers() {
        let patience = Duration::from_mins(1);
        let reply = shell("cat; echo problem >&2; exit 3", "text", 100, patience);
        assert_eq!((reply.output.as_slice(), reply.errors.as_str()), (&b"text"[..], "problem"));
        assert_eq!(reply.status.and_then(|status| status.code()), Some(3));
        // More than any pipe holds, in both directions, and a program that reads nothing.
        let long = "x".repeat(1 << 20);
        assert_eq!(shell("cat", &long, 10, patience).output.len(), 11);
        assert!(shell("echo done", &long, 10, patience).status.unwrap().success());
        assert!(exchange(&mut Command::new("/nothing/here"), Vec::new(), 4, patience).is_err());
    }

    /// Without the limit, this test would take ten minutes.
    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        assert!(shell("echo begun >&2; sleep 600 & wait", "", 100, Duration::from_millis(300)).status.is_none());
    }
}
