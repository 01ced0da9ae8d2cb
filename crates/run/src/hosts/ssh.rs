//! The process of `ssh`, and the start of this program on the host.
//!
//! One connection does all of it: a script reports the host's system, receives this program if the host does not have it,
//! checks that it runs, and becomes its server.

use std::{
    io::{self, BufRead, Read, Write},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fs_err as fs;

use super::{HostError, Target};
use crate::{format::quoted, host::system};

/// The word with which the script begins its responses; text that a login prints before is skipped.
const MAGIC: &str = "sweep-hosts/1 ";
/// The script requests the program.
const SEND: &str = "send";
/// The script becomes the server.
const SERVE: &str = "serve";
/// Maximum length of a login's text before the script responds, in bytes.
const MAX_NOISE: u64 = 1 << 16;
/// The folder on hosts, if none is given.
const WORKDIR: &str = "~/.sweep";
/// Longest time without a byte before the server runs.
const LOGIN: Duration = Duration::from_mins(1);
/// Exit codes of the script.
const OTHER_SYSTEM: i32 = 70;
const NO_FOLDER: i32 = 71;
const NOT_RECEIVED: i32 = 72;
const DOES_NOT_RUN: i32 = 74;
/// The longest end of the messages of `ssh` that is kept, in bytes.
const TAIL: usize = 4000;

/// The program to send.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// Its file.
    file: Arc<fs::File>,
    /// Its length in bytes.
    bytes: u64,
    /// BLAKE3 digest of its content.
    digest: String,
}

/// Bytes that have gone each way.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

/// A started `ssh`.
pub(super) struct Ssh {
    pub(super) child: Arc<Mutex<Child>>,
    pub(super) input: Sending,
    pub(super) output: io::BufReader<Receiving>,
    pub(super) messages: thread::JoinHandle<String>,
}

/// Ends `ssh` when no byte has gone through it for too long. Watches until it is dropped.
pub(super) struct Watch {
    over: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
}

/// Standard input of `ssh`, with its bytes counted.
pub(super) struct Sending {
    to: ChildStdin,
    counts: Arc<Counts>,
}

/// Standard output of `ssh`, with its bytes counted.
pub(super) struct Receiving {
    from: ChildStdout,
    counts: Arc<Counts>,
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.counts.sent.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Read for Receiving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.counts.received.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Program {
    /// Opens the program. The file stays open, so it may be replaced meanwhile.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = fs::File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&file)?;
        Ok(Self { file: Arc::new(file), bytes, digest: hasher.finalize().to_hex().to_string() })
    }

    /// Writes the program.
    fn send(&self, writer: &mut impl Write) -> io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        let mut buffer = vec![0; 1 << 16];
        let mut offset = 0;
        while offset < self.bytes {
            let count = self.file.file().read_at(&mut buffer, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            writer.write_all(buffer.get(..count).unwrap_or_default())?;
            offset += count as u64;
        }
        writer.flush()
    }
}

impl Watch {
    /// Watches received bytes, and, if `sent` is true, also sent bytes.
    pub(super) fn start(child: &Arc<Mutex<Child>>, counts: &Arc<Counts>, sent: bool, limit: Duration) -> Self {
        const POLL_INTERVAL: Duration = Duration::from_millis(250);
        let watch = Self { over: Arc::default(), silent: Arc::default() };
        let (is_over, is_silent) = (Arc::clone(&watch.over), Arc::clone(&watch.silent));
        let (child, counts) = (Arc::clone(child), Arc::clone(counts));
        let count = move || {
            let sent = if sent { counts.sent.load(Ordering::Relaxed) } else { 0 };
            counts.received.load(Ordering::Relaxed) + sent
        };
        let work = move || {
            let (mut last_count, mut last_change) = (count(), Instant::now());
            while !is_over.load(Ordering::SeqCst) {
                let new_count = count();
                if new_count != last_count {
                    (last_count, last_change) = (new_count, Instant::now());
                } else if last_change.elapsed() > limit {
                    is_silent.store(true, Ordering::SeqCst);
                    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
                    return;
                }
                thread::sleep(POLL_INTERVAL);
            }
        };
        // Without the thread, `ssh` itself notices later.
        let _ = thread::Builder::new().name("host watch".into()).spawn(work);
        watch
    }

    /// True if it has ended `ssh`.
    pub(super) fn was_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

impl Ssh {
    /// Starts `ssh` with the script.
    pub(super) fn start(target: &Target, program: &Program, counts: &Arc<Counts>) -> Result<Self, HostError> {
        let ssh_error = |reason: String| HostError::Ssh { host: target.host.clone(), reason };
        if target.host.is_empty() || target.host.starts_with('-') {
            return Err(ssh_error("the name of a host is not empty and does not begin with `-`".into()));
        }
        let mut command = Command::new("ssh");
        command.args(["-T", "-oBatchMode=yes", "-oClearAllForwardings=yes"]).args(&target.options);
        // Behind the user's own options, of which the first counts.
        command.args(["-oConnectTimeout=15", "-oServerAliveInterval=15", "-oServerAliveCountMax=3", "--"]);
        command.arg(&target.host).arg(script(target.workdir.as_deref().unwrap_or(WORKDIR), program));
        // Ctrl-C is for the sweep, which still needs its connections.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                ssh_error("there is no program `ssh` on the PATH; install OpenSSH's client".into())
            }
            _ => ssh_error(error.to_string()),
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(ssh_error("its streams are missing".into()));
        };
        let messages = thread::Builder::new().name("ssh messages".into()).spawn(move || tail(stderr));
        let messages = messages.map_err(|error| ssh_error(error.to_string()))?;
        let input = Sending { to: stdin, counts: Arc::clone(counts) };
        let output = io::BufReader::new(Receiving { from: stdout, counts: Arc::clone(counts) });
        Ok(Self { child: Arc::new(Mutex::new(child)), input, output, messages })
    }

    /// Waits until the server runs; sends it the program if it does not have it. `note` gets a sentence before.
    pub(super) fn bootstrap(
        &mut self,
        program: &Program,
        counts: &Arc<Counts>,
        note: impl Fn(String),
    ) -> Result<(), Refused> {
        let _watch = Watch::start(&self.child, counts, true, LOGIN);
        let mut noise = String::new();
        let host_os = loop {
            let line = self.line()?;
            match line.strip_prefix(MAGIC) {
                Some(host_os) => break host_os.to_owned(),
                None if noise.len() as u64 > MAX_NOISE => return Err(Refused::Noise(noise)),
                None if line.is_empty() => {}
                None => noise.extend([line.as_str(), "\n"]),
            }
        };
        let local_os = system::os();
        if host_os != local_os {
            return Err(Refused::Architecture { there: host_os, here: local_os });
        }
        let mut line = self.line()?;
        if line == SEND {
            note(format!(
                "the program is sent: {}",
                crate::format::quantity(program.bytes as f64, sweep_job::Unit::Bytes)
            ));
            // If it is not taken, the script's exit code has the reason.
            let _ = program.send(&mut self.input);
            line = self.line()?;
        }
        if line == SERVE { Ok(()) } else { Err(Refused::Noise(line)) }
    }

    /// Reads the next line.
    fn line(&mut self) -> Result<String, Refused> {
        let mut line = Vec::new();
        let result = self.output.by_ref().take(MAX_NOISE).read_until(b'\n', &mut line);
        match (result, line.last()) {
            (Ok(_), Some(b'\n')) => Ok(String::from_utf8_lossy(&line).trim().to_owned()),
            _ => Err(Refused::Ended(String::from_utf8_lossy(&line).trim().to_owned())),
        }
    }

    /// Ends `ssh`, and returns the reason why it was refused or has ended by itself.
    pub(super) fn end(self, refusal: Option<Refused>, host: &str) -> HostError {
        drop(self.input);
        drop(self.output);
        let host = host.to_owned();
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let code = if matches!(refusal, None | Some(Refused::Ended(_))) { wait_shortly(&mut child) } else { None };
        let _ = child.kill();
        let _ = child.wait();
        drop(child);
        let messages = self.messages.join().unwrap_or_default();
        match refusal {
            Some(Refused::Architecture { there, here }) => HostError::Architecture { host, there, here },
            Some(Refused::Noise(noise)) => {
                let reason = format!("its login prints `{}` instead of starting the program", shown(&noise));
                HostError::Protocol { host, reason }
            }
            Some(Refused::Ended(line)) => classify(host, code, &messages, &line),
            None => {
                let reason = last_words(&messages).unwrap_or_else(|| "ssh has ended".into());
                HostError::Lost { host, reason }
            }
        }
    }
}

/// Reason why the server does not run.
#[derive(Debug)]
pub(super) enum Refused {
    /// `ssh` has ended, after this text.
    Ended(String),
    /// Another program responds, with this text.
    Noise(String),
    /// The host has another system or processor.
    Architecture { there: String, here: String },
}

/// Exit code of `ssh`, if it ends within a moment.
fn wait_shortly(child: &mut Child) -> Option<i32> {
    for _ in 0..40 {
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) => thread::sleep(Duration::from_millis(50)),
            Err(_) => return None,
        }
    }
    None
}

/// The error for an end of `ssh` before the server runs.
fn classify(host: String, code: Option<i32>, messages: &str, line: &str) -> HostError {
    let reason = last_words(messages).or_else(|| (!line.is_empty()).then(|| shown(line)));
    let reason = reason.unwrap_or_else(|| match code {
        Some(code) => format!("ssh ended with exit code {code}"),
        None => "ssh ended without a message".into(),
    });
    let any = |words: &[&str]| words.iter().any(|word| messages.contains(word));
    let is_full = any(&["No space left on device", "Disk quota exceeded"]);
    match code {
        Some(NO_FOLDER | NOT_RECEIVED) if is_full => HostError::Full { host, reason },
        Some(NO_FOLDER | NOT_RECEIVED) => {
            HostError::There { host, reason: format!("the program cannot be kept: {reason}") }
        }
        Some(DOES_NOT_RUN | 126 | 127) => HostError::Library { host, reason },
        _ if any(&["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"]) => {
            HostError::HostKey { host, reason }
        }
        _ if any(&["Permission denied", "Too many authentication failures", "No supported authentication methods"]) => {
            HostError::Login { host, reason }
        }
        _ if any(&["Bad configuration option", "Can't open user config", "unknown option", "illegal option"]) => {
            HostError::Ssh { host, reason }
        }
        _ => HostError::Unreachable { host, reason },
    }
}

/// Returns the last meaningful line of `messages`.
pub(super) fn last_words(messages: &str) -> Option<String> {
    let noise = |line: &&str| line.is_empty() || line.starts_with("Connection to ") || line.starts_with("Killed by");
    messages.lines().map(str::trim).rfind(|line| !noise(line)).map(shown)
}

/// The beginning of a text, fit to be shown.
fn shown(text: &str) -> String {
    let text = crate::format::clean(text.trim());
    let mut beginning: String = text.chars().take(300).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    beginning
}

/// The end of a stream.
fn tail(mut stream: impl Read) -> String {
    let (mut tail, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut part) {
        tail.extend_from_slice(part.get(..count).unwrap_or_default());
        let surplus = tail.len().saturating_sub(TAIL);
        tail.drain(..surplus);
    }
    String::from_utf8_lossy(&tail).into_owned()
}

/// The command for the login shell of the user, which may be any shell: only quotes are used, and one line.
fn script(workdir: &str, program: &Program) -> String {
    let folder = match workdir.strip_prefix("~/") {
        Some(inner) => format!("\"$HOME\"/{}", quoted(inner)),
        None if workdir == "~" => "\"$HOME\"".to_owned(),
        None => quoted(workdir),
    };
    let Program { bytes, digest, .. } = program;
    let steps = [
        "umask 077".to_owned(),
        format!("W={folder}; B=\"$W/bin/{digest}\"; P=\"$B/sweep\"; T=\"$B/.sweep.$$\""),
        format!("S=$(uname -sm); printf \"\\n{MAGIC}%s\\n\" \"$S\""),
        // The words have no quotes.
        format!("[ \"$S\" = \"{}\" ] || exit {OTHER_SYSTEM}", system::os()),
        "if [ ! -x \"$P\" ]; then".to_owned()
            + &format!(" mkdir -p \"$B\" || exit {NO_FOLDER}; printf \"{SEND}\\n\";")
            + &format!(" head -c {bytes} > \"$T\" || {{ rm -f \"$T\"; exit {NOT_RECEIVED}; }};")
            + &format!(" if [ \"$(wc -c < \"$T\")\" -ne {bytes} ]; then rm -f \"$T\"; exit {NOT_RECEIVED}; fi;")
            + &format!(" chmod 700 \"$T\"; \"$T\" --version > /dev/null || {{ rm -f \"$T\"; exit {DOES_NOT_RUN}; }};")
            + &format!(" mv -f \"$T\" \"$P\" || exit {NOT_RECEIVED}; fi"),
        format!("printf \"{SERVE}\\n\""),
        "exec \"$P\" hosts serve --workdir \"$W\"".to_owned(),
    ];
    format!("exec sh -c {}", quoted(&steps.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(code: i32, messages: &str) -> HostError {
        classify("box1".into(), Some(code), messages, "")
    }

    #[test]
    fn the_end_of_ssh_is_understood() {
        let lost_error = class(255, "ssh: connect to host box1 port 22: Connection refused\r\n");
        assert!(matches!(&lost_error, HostError::Unreachable { reason, .. } if reason.ends_with("Connection refused")));
        assert!(!lost_error.is_lasting() && lost_error.is_away());
        let refused_error = class(255, "banner\nme@box1: Permission denied (publickey).\n");
        assert!(
            matches!(&refused_error, HostError::Login { reason, .. } if reason == "me@box1: Permission denied (publickey).")
        );
        assert!(refused_error.is_lasting());
        assert!(matches!(class(255, "Host key verification failed.\n"), HostError::HostKey { .. }));
        assert!(matches!(class(72, "head: write error: No space left on device"), HostError::Full { .. }));
        assert!(matches!(class(72, "head: not found"), HostError::There { .. }));
        let library = class(74, "/lib/libc.so.6: version `GLIBC_2.38' not found");
        assert!(library.to_string().contains("does not run on box1: /lib/libc.so.6: version `GLIBC_2.38' not found"));
        assert!(class(255, "").to_string().contains("ssh ended with exit code 255"));
    }

    #[test]
    fn a_folder_stays_in_its_quotes() {
        let program = Program { file: Arc::new(fs::File::open("/dev/null").unwrap()), bytes: 3, digest: "d".into() };
        let run = |workdir: &str| {
            let home = tempfile::tempdir().unwrap();
            let mut command = Command::new("sh");
            command.args(["-c", &script(workdir, &program)]).env("HOME", home.path()).stdin(Stdio::null());
            let output = command.output().unwrap();
            let names = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
            (output.status.code(), names)
        };
        assert_eq!(run("~/a b'; exit 3; $(exit 4)"), (Some(NOT_RECEIVED), vec!["a b'; exit 3; $(exit 4)".into()]));
        assert_eq!(run("/dev/null/x").0, Some(NO_FOLDER));
    }
}
