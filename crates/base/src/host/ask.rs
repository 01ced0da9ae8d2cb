//! Answers of other programs, within limits of time and length.

use std::{
    borrow::Cow,
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::threads::refused;

/// Maximum length of the kept end of standard error, in bytes.
const MAX_STDERR_LENGTH: usize = 1 << 16;
/// Time in which the output of an ended program must arrive.
const GRACE: Duration = Duration::from_secs(1);
/// Pauses between two checks for the end of a program: the first one, which then doubles, and the maximum.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// Limits of a program's output and time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of its standard output that are kept.
    pub most: usize,
    /// Time at which it is killed, with its children.
    pub until: Instant,
    /// Treatment of children that hold its outputs open when it has ended.
    pub children: Children,
}

/// Treatment of children that hold the outputs of a program open when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// The children are part of the program: they are waited for, and killed at the time limit.
    Awaited,
    /// The children continue to run: a command may start a service.
    Left,
}

/// The exit status of a program, with its output.
#[derive(Debug)]
pub struct Answer {
    /// Its exit status; `None` if it was killed at the time limit.
    pub status: Option<ExitStatus>,
    /// The beginning of its standard output.
    pub text: Vec<u8>,
    /// The length of the whole output in bytes.
    pub bytes: u64,
    /// The BLAKE3 digest of the whole output.
    pub digest: blake3::Hash,
    /// The end of its standard error.
    pub complaint: String,
}

impl Answer {
    /// True if the program ended in time with exit code 0.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// True if all of its standard output was kept.
    pub fn is_whole(&self) -> bool {
        self.bytes == self.text.len() as u64
    }

    /// The kept standard output as text, with invalid UTF-8 replaced.
    pub fn out(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    /// The last line of its standard error that is not blank.
    pub fn last_words(&self) -> Option<&str> {
        self.complaint.lines().rev().map(str::trim).find(|line| !line.is_empty())
    }
}

/// Runs a program without input, and returns its output, of which at most `max_bytes` bytes are kept. `None` if the
/// program cannot be started, fails, or has not ended at `until`, when it is killed with its children.
pub fn ask(command: &mut Command, max_bytes: usize, until: Instant) -> Option<Answer> {
    let limits = Limits { most: max_bytes, until, children: Children::Awaited };
    converse(command, None, limits).ok().filter(Answer::succeeded)
}

/// Runs a program with `input` to its end, and returns its output, whatever its exit status. A program that exceeds the
/// time limit is killed with its children, and its output up to then is returned.
///
/// # Errors
/// The program or a thread for its outputs cannot be started.
pub fn converse(command: &mut Command, input: Option<Vec<u8>>, limits: Limits) -> io::Result<Answer> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
    let (stdout, stderr) = match outputs(&mut child, input, limits.most) {
        Ok(outputs) => outputs,
        Err(error) => {
            end(&mut child);
            return Err(refused(error));
        }
    };
    let deadline = limits.until;
    // Outputs are awaited before the child is reaped: until then, no other process group can get its id, and `end`
    // kills the right group.
    let has_closed = limits.children == Children::Left || (stdout.has_ended(deadline) && stderr.has_ended(deadline));
    let status = if has_closed { wait(&mut child, &stdout, deadline) } else { None };
    if status.is_none() {
        end(&mut child);
    }
    let grace = Instant::now() + GRACE;
    stdout.has_ended(grace);
    stderr.has_ended(grace);
    let (stdout, stderr) = (stdout.read(), stderr.read());
    let (bytes, digest) = (stdout.bytes, stdout.hasher.finalize());
    Ok(Answer {
        status,
        text: stdout.text,
        bytes,
        digest,
        complaint: String::from_utf8_lossy(&stderr.text).into_owned(),
    })
}

/// Waits until a program ends; returns `None` if it has not ended at `deadline`.
fn wait(child: &mut Child, stdout: &Output, deadline: Instant) -> Option<ExitStatus> {
    let (mut pause, mut has_closed) = (FIRST_PAUSE, false);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => {}
            Ok(None) | Err(_) => return None,
        }
        let next_check = (Instant::now() + pause).min(deadline);
        if has_closed {
            thread::sleep(next_check.saturating_duration_since(Instant::now()));
        } else if stdout.has_ended(next_check) {
            // A program that has closed its output is about to end.
            (pause, has_closed) = (FIRST_PAUSE, true);
            continue;
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Kills a program with its children.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Writes a program's input and reads its outputs in threads, because each of them can block.
fn outputs(child: &mut Child, input: Option<Vec<u8>>, max_bytes: usize) -> io::Result<(Output, Output)> {
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A write error is ignored: a program that does not read its input reports the reason on stderr.
        thread::Builder::new().name("input".into()).spawn(move || drop(stdin.write_all(&input)))?;
    }
    let no_pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
    let stdout = Output::follow(child.stdout.take().ok_or_else(no_pipe)?, Keep::Beginning(max_bytes))?;
    let stderr = Output::follow(child.stderr.take().ok_or_else(no_pipe)?, Keep::End(MAX_STDERR_LENGTH))?;
    Ok((stdout, stderr))
}

/// The part of an output that is kept, in bytes.
#[derive(Debug, Clone, Copy)]
enum Keep {
    Beginning(usize),
    End(usize),
}

/// The output that was read so far, of which `text` is the kept part.
#[derive(Debug, Default)]
struct Written {
    text: Vec<u8>,
    bytes: u64,
    hasher: blake3::Hasher,
}

impl Written {
    fn add(&mut self, part: &[u8], keep: Keep) {
        self.bytes += part.len() as u64;
        match keep {
            Keep::Beginning(max_bytes) => {
                self.hasher.update(part);
                let room = max_bytes.saturating_sub(self.text.len());
                self.text.extend_from_slice(&part[..room.min(part.len())]);
            }
            Keep::End(max_bytes) => {
                self.text.extend_from_slice(part);
                let surplus = self.text.len().saturating_sub(max_bytes);
                self.text.drain(..surplus);
            }
        }
    }
}

/// An output that a thread reads to its end, because a child can hold it open longer than the caller waits.
struct Output {
    written: Arc<Mutex<Written>>,
    /// Disconnected when the output ends.
    ended: Receiver<()>,
}

impl Output {
    fn follow(mut output: impl io::Read + Send + 'static, keep: Keep) -> io::Result<Self> {
        let (sender, ended) = channel();
        let written = Arc::new(Mutex::new(Written::default()));
        let shared = Arc::clone(&written);
        let work = move || {
            let mut part = [0; 1 << 14];
            loop {
                match output.read(&mut part) {
                    Ok(0) => break,
                    Ok(count) => shared.lock().unwrap_or_else(PoisonError::into_inner).add(&part[..count], keep),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            drop(sender);
        };
        thread::Builder::new().name("answer".into()).spawn(work)?;
        Ok(Self { written, ended })
    }

    /// Waits until the output ends, at most until `deadline`; returns true if it has ended.
    fn has_ended(&self, deadline: Instant) -> bool {
        let remaining_time = deadline.saturating_duration_since(Instant::now());
        self.ended.recv_timeout(remaining_time) != Err(RecvTimeoutError::Timeout)
    }

    /// Takes the output that was read so far, and leaves it empty.
    fn read(&self) -> Written {
        std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(1);

    fn ask_shell(script: &str, max_bytes: usize, limit: Duration) -> Option<Answer> {
        ask(Command::new("sh").args(["-c", script]), max_bytes, Instant::now() + limit)
    }

    fn shell(script: &str, input: Option<&str>, limit: Duration, children: Children) -> Answer {
        let limits = Limits { most: 100, until: Instant::now() + limit, children };
        converse(Command::new("sh").args(["-c", script]), input.map(|text| text.as_bytes().to_vec()), limits).unwrap()
    }

    #[test]
    fn an_answer_is_cut_and_its_digest_is_that_of_the_whole() {
        let answer = ask_shell("printf 'abcdef'", 4, TIMEOUT).unwrap();
        assert_eq!((answer.text.as_slice(), answer.bytes, answer.is_whole()), (&b"abcd"[..], 6, false));
        assert_eq!(answer.digest, blake3::hash(b"abcdef"));
        assert!(ask_shell("printf x; exit 3", 4, TIMEOUT).is_none(), "a failure is no answer");
        assert!(ask(&mut Command::new("/nothing/here"), 4, Instant::now() + TIMEOUT).is_none());
    }

    #[test]
    fn a_program_has_input_both_outputs_and_an_end() {
        for children in [Children::Awaited, Children::Left] {
            let shell = |script: &str, input: Option<&str>| shell(script, input, TIMEOUT, children);
            let answer = shell("read line; echo \"got $line\"; echo no >&2; exit 3", Some("this\n"));
            assert_eq!(
                (answer.out().as_ref(), answer.complaint.as_str(), answer.last_words()),
                ("got this\n", "no\n", Some("no"))
            );
            assert_eq!(answer.status.and_then(|status| status.code()), Some(3));
            assert!(!answer.succeeded());
            // More than a pipe holds, in both directions at once.
            let large = "x".repeat(1 << 20);
            let answer = shell("cat; cat /dev/null", Some(&large));
            assert!(answer.succeeded() && answer.text.len() == 100 && answer.bytes == 1 << 20, "{answer:?}");
            assert!(shell("exit 0", Some(&large)).succeeded(), "it does not read");
            let answer = shell("yes error | head -c 200000 >&2; echo >&2; echo last >&2", None);
            assert_eq!((answer.complaint.len(), answer.last_words()), (MAX_STDERR_LENGTH, Some("last")));
            let limits = Limits { most: 4, until: Instant::now() + TIMEOUT, children };
            assert!(converse(&mut Command::new("/nothing/here"), None, limits).is_err());
        }
    }

    /// Without the time limit, each program would run for ten minutes.
    #[test]
    fn a_program_that_hangs_is_ended_with_its_children_and_what_it_wrote_counts() {
        for children in [Children::Awaited, Children::Left] {
            let answer =
                shell("echo begun; echo why >&2; sleep 600 & wait", None, Duration::from_millis(300), children);
            assert!(answer.status.is_none() && answer.out() == "begun\n" && answer.complaint == "why\n", "{answer:?}");
        }
    }

    #[test]
    fn a_child_that_holds_the_output_open_belongs_to_a_program_or_goes_on() {
        let script = "sleep 600 & echo $!";
        assert!(ask_shell(script, 100, Duration::from_millis(300)).is_none());
        let answer = shell(script, None, TIMEOUT, Children::Left);
        assert!(answer.succeeded() && answer.is_whole(), "{answer:?}");
        let child = Pid::from_raw(answer.out().trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(child, Signal::KILL).expect("it goes on");
    }
}
