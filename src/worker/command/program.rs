//! A program in the worker's process group, which leaves no processes behind.

use std::{
    io::{self, Read, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::AtomicBool,
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal,
};
use signal_hook::{
    consts::{SIGHUP, SIGTERM},
    iterator::Signals,
};
use tracing::info;

use super::words::{Word, understand};
use crate::host::log;

/// End of a program.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// From its start to its end.
    pub(super) seconds: f64,
    /// The last thing that it said on standard error.
    pub(super) complaint: String,
}

/// Events from the threads that follow the program.
enum Event {
    /// It said something that means something.
    Word(Word),
    /// It wrote something.
    Output,
    /// One of its outputs is closed.
    Closed,
    /// It has ended, and so has everything that it started.
    Ended(ExitStatus, Instant),
}

/// Longest line that is parsed; of a longer one, the beginning.
const LONGEST_LINE: usize = 4096;
/// Longest complaint that is quoted, in characters.
const LONGEST_COMPLAINT: usize = 300;
/// Shortest interval at which output counts as activity.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(1);
/// Time to wait for killed processes to end, and for outputs to close after that.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the end of the engine the end of the whole process group. Until now it was the end of the worker alone, and a
/// program would outlive that. The flag is set when the engine asks for the end: then it is for the program to end.
pub(super) fn follow_engine() -> io::Result<Arc<AtomicBool>> {
    let engine = getppid();
    let mut signals = Signals::new([SIGHUP])?;
    thread::Builder::new().name("engine".into()).spawn(move || {
        if signals.forever().next().is_some() {
            end_everything();
        }
    })?;
    set_parent_process_death_signal(Some(Signal::HUP))?;
    if getppid() != engine {
        end_everything();
    }
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&stop))?;
    // What the program leaves running becomes this process's child, so that it can be found.
    set_child_subreaper(Some(getpid()))?;
    Ok(stop)
}

fn end_everything() -> ! {
    let _ = kill_process_group(getpid(), Signal::KILL);
    // Only here if this process does not lead a group: it was started manually.
    std::process::exit(1)
}

/// Runs a program to its end; `on_word` also hears `None`, when the program has written something. An error means that it
/// could not be started.
pub(super) fn run(mut program: Command, on_word: &mut dyn FnMut(Option<Word>)) -> io::Result<Ended> {
    let begun = Instant::now();
    follow_worker(&mut program);
    let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, receiver) = sync_channel(1024);
    let complaint = Arc::new(Mutex::new(String::new()));
    let mut open = 0;
    if let Some(stdout) = child.stdout.take() {
        let words = sender.clone();
        let on_line = move |line: &[u8]| {
            if let Some(word) = understand(line) {
                let _ = words.send(Event::Word(word));
            }
        };
        listen(stdout, sender.clone(), on_line)?;
        open += 1;
    }
    if let Some(stderr) = child.stderr.take() {
        let complaint = Arc::clone(&complaint);
        let on_line = move |line: &[u8]| {
            let text = String::from_utf8_lossy(line);
            if !text.trim().is_empty() {
                let text = text.trim().chars().take(LONGEST_COMPLAINT).collect();
                *complaint.lock().unwrap_or_else(PoisonError::into_inner) = text;
            }
        };
        listen(stderr, sender.clone(), on_line)?;
        open += 1;
    }
    info!(target: log::SPAWN, pid = child.id(), "program started");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    thread::Builder::new().name("end".into()).spawn(move || {
        let status = wait_for(pid);
        let at = Instant::now();
        end_rest();
        let _ = sender.send(Event::Ended(status, at));
    })?;
    let mut ended = None;
    while open > 0 || ended.is_none() {
        let patience = if ended.is_none() { Duration::MAX } else { PATIENCE };
        match receiver.recv_timeout(patience) {
            Ok(Event::Word(word)) => on_word(Some(word)),
            Ok(Event::Output) => on_word(None),
            Ok(Event::Closed) => open -= 1,
            Ok(Event::Ended(status, at)) => ended = Some((status, at)),
            // A process that cannot be killed holds an output open; its later output is ignored.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let (status, at) = ended.ok_or_else(|| io::Error::other("its end was missed"))?;
    info!(target: log::SPAWN, %status, "program ended");
    let complaint = complaint.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Ended { status, seconds: (at - begun).as_secs_f64(), complaint })
}

/// Ends the program when this worker ends, even if the engine was killed at the same instant. Processes that the
/// program has started are not covered.
#[expect(unsafe_code, reason = "between `fork` and `exec` only the new process can say this of itself")]
fn follow_worker(program: &mut Command) {
    let worker = getpid();
    let follow = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before the kernel was told.
        if getppid() == Some(worker) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: the closure makes two system calls and touches nothing that another thread may hold; an `io::Error` from a
    // number or a kind allocates nothing.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(program, follow);
    }
}

/// Copies an output to the log, as it is, and passes on its lines.
fn listen(
    mut output: impl Read + Send + 'static,
    closed: SyncSender<Event>,
    mut on_line: impl FnMut(&[u8]) + Send + 'static,
) -> io::Result<()> {
    let follow = move || {
        let mut buffer = vec![0; 1 << 16];
        let mut line = Vec::new();
        let mut reported = Instant::now();
        loop {
            let count = match output.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            // A log that is full is no reason to stop the program.
            let _ = io::stderr().write_all(&buffer[..count]);
            if reported.elapsed() >= ACTIVITY_INTERVAL {
                reported = Instant::now();
                let _ = closed.try_send(Event::Output);
            }
            for byte in &buffer[..count] {
                match byte {
                    b'\n' | b'\r' => {
                        on_line(&line);
                        line.clear();
                    }
                    _ if line.len() < LONGEST_LINE => line.push(*byte),
                    _ => {}
                }
            }
        }
        on_line(&line);
        let _ = closed.send(Event::Closed);
    };
    thread::Builder::new().name("output".into()).spawn(follow).map(|_| ())
}

/// Waits for a child's end, and clears away whatever else ends meanwhile: this process gets the orphans.
fn wait_for(child: Option<Pid>) -> ExitStatus {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == child => return ExitStatus::from_raw(status.as_raw()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // It cannot have been waited for by anybody else; if it was, it did not end well.
            Err(_) => return ExitStatus::from_raw(Signal::KILL.as_raw()),
        }
    }
}

/// Ends what the program has left running, and comes back when it is gone.
fn end_rest() {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
            Ok(None) => {}
            Err(_) => return,
        }
        // A child's number stays its own until it is waited for, which happens only above.
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The processes whose parent is this one.
fn children() -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = getpid().as_raw_nonzero().get().to_string();
    let child = |name: &str| {
        let pid = Pid::from_raw(name.parse().ok()?)?;
        let stat = std::fs::read(format!("/proc/{name}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The program's name is in parentheses and may contain anything; then come the state and the parent.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (parent == own).then_some(pid)
    };
    processes.filter_map(|process| child(process.ok()?.file_name().to_str()?)).collect()
}
