//! A program in the worker's process group, as one process or as several ranks. None of its processes outlives it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    io::{self, Read, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, set_child_subreaper, set_parent_process_death_signal,
};
use signal_hook::{
    consts::{SIGHUP, SIGTERM},
    iterator::Signals,
};
use sweep_observer::Hook;
use tracing::info;

use super::{
    cause::Cause,
    fork::{self, Fork},
    launcher::{Failed, Launcher},
    lines::Lines,
    words::{Word, plain, understand},
};
use crate::host::{log, threads};

/// End of a program.
pub(super) struct Ended {
    /// Exit status of the program's process; of several processes, the status of the first that failed.
    pub(super) status: ExitStatus,
    /// The rank of the process that failed or ended last, if the program has several processes and the rank is known.
    pub(super) rank: Option<usize>,
    /// Seconds from the program's start to its end.
    pub(super) seconds: f64,
    /// The line of the program's output that names the cause of a failure; empty if there is none.
    pub(super) complaint: String,
}

/// A process that has ended.
struct End {
    rank: usize,
    status: ExitStatus,
    at: Instant,
}

/// A program's stdout or stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Out,
    Err,
}

/// Events from the threads that follow the program.
enum Event {
    /// The program wrote a line with progress or a metric.
    Word(Word),
    /// The program wrote other output.
    Output,
    /// An output of the program was closed.
    Closed,
    /// All processes of the program, and all that they started, have ended. Has the first failure, else the last end.
    Ended(End),
}

/// Shortest interval at which output counts as activity.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for killed processes to end, and for outputs to close after that.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Number of threads of a worker without a job, besides idle threads: the main thread, and the thread that follows the
/// engine.
const THREADS: usize = 2;

/// Set once this process follows the engine. The flag becomes true when the engine asks the program to stop (SIGTERM).
static FOLLOWED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes the end of the engine kill the whole process group. Without this call it kills only the worker, and a program
/// would outlive it. SIGTERM then sets the returned flag instead of ending the worker, so that the program can end by
/// itself.
///
/// # Errors
///
/// A signal handler or the thread that follows the engine cannot be set up.
pub(super) fn follow_engine() -> io::Result<Arc<AtomicBool>> {
    // A worker that runs a further job follows the engine already.
    if let Some(stop) = FOLLOWED.get() {
        return Ok(Arc::clone(stop));
    }
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
    // Processes that the program leaves running become children of this process, so that they can be found.
    set_child_subreaper(Some(getpid()))?;
    Ok(Arc::clone(FOLLOWED.get_or_init(|| stop)))
}

/// True if this process can run a further job: the last program has left no child process, no thread that copies its
/// output, and no request to stop.
pub(in crate::worker) fn is_over() -> bool {
    /// A thread that has sent its last event may need a moment to end.
    const TRIES: u32 = 50;
    const RETRY_DELAY: Duration = Duration::from_micros(100);
    let is_stopping = FOLLOWED.get().is_some_and(|stop| stop.load(Ordering::SeqCst));
    let is_childless = match rustix::process::wait(WaitOptions::NOHANG) {
        Err(rustix::io::Errno::CHILD) => true,
        Ok(None) => fork::interpreter().is_some() && children().into_iter().all(fork::is_interpreter),
        _ => false,
    };
    let known_threads = || THREADS + threads::idle_count();
    let is_alone = || std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() <= known_threads());
    let mut tries = 0;
    while !is_alone() && tries < TRIES {
        thread::sleep(RETRY_DELAY);
        tries += 1;
    }
    is_childless && !is_stopping && tries < TRIES
}

fn end_everything() -> ! {
    let _ = kill_process_group(getpid(), Signal::KILL);
    // Only here if this process does not lead a group: it was started manually.
    std::process::exit(1)
}

/// Lines of the processes that may name the cause of a failure.
#[derive(Debug, Default)]
struct Said {
    /// The cause in the stderr of each process, by rank; `None` is the launcher.
    causes: BTreeMap<Option<usize>, Cause>,
    /// The cause in the stdout of the first process, which counts if its stderr is empty.
    stdout: Cause,
    /// The first failed process, as the launcher reports it.
    failed: Option<Failed>,
    /// The rank that last wrote to stderr.
    latest: Option<usize>,
}

impl Said {
    /// Returns the failed process, if its launcher reported one, and the line of its stderr that names the cause. If
    /// the launcher reported none, the rank that last wrote to stderr has probably failed.
    fn of_failed(&mut self) -> (Option<Failed>, String) {
        let rank = self.failed.map(|failed| failed.rank);
        let own_line = rank.and_then(|rank| self.causes.remove(&Some(rank))).map(Cause::line);
        let latest = self.latest.filter(|_| rank.is_none());
        let latest = latest.and_then(|latest| Some((latest, self.causes.remove(&Some(latest))?)));
        let likely_complaint = || latest.map(|(latest, cause)| format!("[{latest}] {}", cause.line()));
        let complaint = own_line.or_else(likely_complaint).or_else(|| self.causes.remove(&None).map(Cause::line));
        (self.failed, complaint.unwrap_or_default())
    }
}

type Complaints = Arc<Mutex<Said>>;

/// The writer of an output.
#[derive(Debug, Clone)]
enum Writer {
    /// The only process.
    Alone,
    /// A process of several, by rank.
    Rank(usize),
    /// A launcher, which forwards the output of all processes with their labels.
    All(Launcher),
}

/// Runs a program to its end: one process, several ranks, or a launcher that starts the ranks. Calls `on_word` with
/// each line of progress or metrics, and with `None` for other output; and `on_line` with every line of the first rank,
/// without terminal codes, and with true if the line was cut.
///
/// # Errors
///
/// The program or a thread cannot be started, or its end was missed.
pub(super) fn run(
    (programs, mut fork): (Vec<Command>, Option<&mut Fork>),
    launcher: Option<&Launcher>,
    observer: Option<&Hook>,
    on_line: impl Fn(Output, &[u8], bool) + Clone + Send + 'static,
    on_word: &mut dyn FnMut(Option<Word>),
) -> io::Result<Ended> {
    let start = Instant::now();
    let (sender, receiver) = sync_channel(1024);
    let complaints = Complaints::default();
    let has_several = programs.len() > 1;
    let mut open_outputs = 0;
    let mut pids = HashMap::new();
    for (rank, mut program) in programs.into_iter().enumerate() {
        follow_worker(&mut program);
        if let Some(observer) = observer {
            observer.install(&mut program);
        }
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, pid) = match start_or_fork(&mut program, fork.as_deref_mut()) {
            Ok(process) => process,
            Err(error) => {
                end_rest();
                return Err(error);
            }
        };
        info!(target: log::SPAWN, pid = pid.map(Pid::as_raw_nonzero), rank, "program started");
        pids.extend(pid.map(|pid| (pid, rank)));
        let writer = match launcher {
            Some(launcher) => Writer::All(launcher.clone()),
            None if has_several => Writer::Rank(rank),
            None => Writer::Alone,
        };
        open_outputs += follow_outputs(child, &writer, &sender, &complaints, on_line.clone())?;
    }
    threads::start(move || {
        let end = wait_for(pids);
        end_rest();
        let _ = sender.send(Event::Ended(end));
    })?;
    let mut program_end: Option<End> = None;
    while open_outputs > 0 || program_end.is_none() {
        // A process that survived the kill may hold an output open, and write to it forever.
        let deadline = program_end.as_ref().map(|end| end.at + TIMEOUT);
        let patience = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        match receiver.recv_timeout(patience) {
            Ok(Event::Word(word)) => on_word(Some(word)),
            Ok(Event::Output) => on_word(None),
            Ok(Event::Closed) => open_outputs -= 1,
            Ok(Event::Ended(end)) => program_end = Some(end),
            // Such a process holds an output open: ignore its later output.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let End { rank, status, at } = program_end.ok_or_else(|| io::Error::other("its end was not detected"))?;
    info!(target: log::SPAWN, %status, rank, "program ended");
    let mut guard = complaints.lock().unwrap_or_else(PoisonError::into_inner);
    let seconds = (at - start).as_secs_f64();
    if launcher.is_some() && !status.success() {
        let (failed, complaint) = guard.of_failed();
        let status = failed.and_then(|failed| failed.status).unwrap_or(status);
        return Ok(Ended { status, rank: failed.map(|failed| failed.rank), seconds, complaint });
    }
    let complaint = guard.causes.remove(&Some(rank)).map(Cause::line);
    let complaint = complaint.or_else(|| std::mem::take(&mut guard.stdout).named()).unwrap_or_default();
    Ok(Ended { status, rank: has_several.then_some(rank), seconds, complaint })
}

/// Starts a program, or forks its process; returns the process that has its outputs, and the process ID of the program.
fn start_or_fork(program: &mut Command, fork: Option<&mut Fork>) -> io::Result<(Child, Option<Pid>)> {
    if let Some(fork) = fork
        && let Some((stub, pid)) = fork.start(program)?
    {
        return Ok((stub, Some(pid)));
    }
    let child = program.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok((child, pid))
}

/// Follows the outputs of a process, and returns their number. Only lines of the first rank are passed to `on_line` and
/// searched for progress and metrics.
fn follow_outputs(
    mut child: Child,
    writer: &Writer,
    sender: &SyncSender<Event>,
    complaints: &Complaints,
    on_line: impl Fn(Output, &[u8], bool) + Clone + Send + 'static,
) -> io::Result<usize> {
    let mut output_count = 0;
    if let Some(stdout) = child.stdout.take() {
        let (words, hear) = (sender.clone(), on_line.clone());
        let complaints = Arc::clone(complaints);
        let on_line = move |rank: Option<usize>, line: &[u8], is_cut: bool| {
            if rank != Some(0) {
                return;
            }
            hear(Output::Out, line, is_cut);
            complaints.lock().unwrap_or_else(PoisonError::into_inner).stdout.hear(&String::from_utf8_lossy(line));
            if let Some(word) = understand(line) {
                let _ = words.send(Event::Word(word));
            }
        };
        listen(stdout, writer.clone(), sender.clone(), on_line)?;
        output_count += 1;
    }
    if let Some(stderr) = child.stderr.take() {
        let complaints = Arc::clone(complaints);
        let launcher = if let Writer::All(launcher) = writer { Some(launcher.clone()) } else { None };
        let on_line = move |rank: Option<usize>, line: &[u8], is_cut: bool| {
            if rank == Some(0) {
                on_line(Output::Err, line, is_cut);
            }
            let text = String::from_utf8_lossy(line);
            // `slurmstepd`, which ends a Slurm step, writes lines with the label of a process that are not its output.
            if text.trim().is_empty() || (launcher.is_some() && text.starts_with("slurmstepd")) {
                return;
            }
            let mut guard = complaints.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(failed) =
                launcher.as_ref().filter(|_| rank.is_none()).and_then(|launcher| launcher.failed(&text))
            {
                // The launcher kills the other processes when one has failed, and may report the killed processes
                // first.
                if guard.failed.is_none_or(|known| known.was_ended() && !failed.was_ended()) {
                    guard.failed = Some(failed);
                }
            }
            guard.latest = rank.or(guard.latest);
            guard.causes.entry(rank).or_default().hear(&text);
        };
        listen(stderr, writer.clone(), sender.clone(), on_line)?;
        output_count += 1;
    }
    Ok(output_count)
}

/// Makes the kernel kill the program when this worker ends, even if the engine is killed at the same time. Children of
/// the program are not covered.
#[expect(unsafe_code, reason = "a process can only request the signal for itself, between `fork` and `exec`")]
pub(super) fn follow_worker(program: &mut Command) {
    let worker = getpid();
    let follow = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The worker may have ended before the signal was requested.
        if getppid() == Some(worker) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: the closure makes two system calls and takes no lock that another thread may hold; an `io::Error` from a
    // number or a kind allocates nothing.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(program, follow);
    }
}

/// Writes an output to the log in whole lines, so that lines of standard output and standard error do not mix: later
/// measurements can read metrics from the log.
#[derive(Default)]
struct WholeLines(Vec<u8>);

impl WholeLines {
    fn write(&mut self, bytes: &[u8]) {
        /// Maximum length of a line in bytes; a longer line is written in parts.
        const MAX_LINE_BYTES: usize = 1 << 16;
        let end = bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        self.0.extend_from_slice(&bytes[..end]);
        if end > 0 || self.0.len() > MAX_LINE_BYTES {
            self.flush();
        }
        self.0.extend_from_slice(&bytes[end..]);
    }

    fn flush(&mut self) {
        // The program continues even if the log cannot be written.
        let _ = io::stderr().write_all(&self.0);
        self.0.clear();
    }
}

/// Copies an output to the log, and passes its lines to `on_line`, each with the rank that wrote it. The output of a
/// single process is copied unchanged; lines of several ranks are written whole, each after its rank.
fn listen(
    mut output: impl Read + Send + 'static,
    writer: Writer,
    sender: SyncSender<Event>,
    mut on_line: impl FnMut(Option<usize>, &[u8], bool) + Send + 'static,
) -> io::Result<()> {
    let follow = move || {
        let mut buffer = vec![0; 1 << 16];
        let mut last_report = Instant::now();
        let is_alone = matches!(writer, Writer::Alone);
        let mut log = WholeLines::default();
        let mut lines = Lines::new(is_alone);
        let mut on_line = |line: &[u8], is_cut: bool| {
            let (rank, line) = match &writer {
                Writer::Alone => return on_line(Some(0), &plain(line), is_cut),
                Writer::Rank(rank) => (Some(*rank), Cow::Borrowed(line)),
                Writer::All(launcher) => {
                    launcher.labeled(line).map_or((None, Cow::Borrowed(line)), |(rank, rest)| (Some(rank), rest))
                }
            };
            let prefix = rank.map_or_else(String::new, |rank| format!("[{rank}] "));
            let _ = io::stderr().write_all(&[prefix.as_bytes(), &line, b"\n"].concat());
            on_line(rank, &plain(&line), is_cut);
        };
        loop {
            let count = match output.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            if is_alone {
                log.write(&buffer[..count]);
            }
            if last_report.elapsed() >= ACTIVITY_INTERVAL {
                last_report = Instant::now();
                let _ = sender.try_send(Event::Output);
            }
            lines.feed(&buffer[..count], &mut on_line);
        }
        log.flush();
        lines.end(&mut on_line);
        let _ = sender.send(Event::Closed);
    };
    threads::start(follow).map(drop)
}

/// Waits until all processes have ended, and reaps orphans, which become children of this process. After the first
/// failure, the other processes get SIGTERM and [`TIMEOUT`] to end, because they cannot continue. Returns this failure,
/// else the last end.
fn wait_for(mut processes: HashMap<Pid, usize>) -> End {
    let mut failure: Option<End> = None;
    loop {
        // Blocks unless a failure limits the time.
        let options = if failure.is_some() { WaitOptions::NOHANG } else { WaitOptions::empty() };
        let exit = match rustix::process::wait(options) {
            Ok(Some((pid, status))) => processes.remove(&pid).map(|rank| {
                let status = ExitStatus::from_raw(status.as_raw());
                End { rank, status, at: Instant::now() }
            }),
            Ok(None) => {
                thread::sleep(Duration::from_millis(5));
                None
            }
            Err(rustix::io::Errno::INTR) => None,
            // No other code waits for this process; if it was reaped elsewhere, it counts as failed.
            Err(_) => {
                let status = ExitStatus::from_raw(Signal::KILL.as_raw());
                return failure.unwrap_or(End { rank: 0, status, at: Instant::now() });
            }
        };
        if let Some(end) = exit {
            if failure.is_none() && !end.status.success() {
                for pid in processes.keys() {
                    let _ = kill_process(*pid, Signal::TERM);
                }
                failure = Some(end);
            } else if processes.is_empty() && failure.is_none() {
                return end;
            }
        }
        if let Some(failure) = failure.take_if(|failure| processes.is_empty() || failure.at.elapsed() >= TIMEOUT) {
            return failure;
        }
    }
}

/// Kills the processes that the program has left running, and returns when they have ended, at the latest after
/// [`TIMEOUT`].
fn end_rest() {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
            Ok(None) => {}
            Err(_) => return,
        }
        // The PID of a child is not reused before the child is reaped, which happens only above.
        let rest: Vec<Pid> = children().into_iter().filter(|child| !fork::is_interpreter(*child)).collect();
        if rest.is_empty() && fork::interpreter().is_some() {
            return;
        }
        for child in rest {
            let _ = kill_process(child, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends SIGTERM to the process group, which includes the program. In this process, the signal only sets the flag of
/// [`follow_engine`].
pub(super) fn terminate() {
    let _ = kill_process_group(getpid(), Signal::TERM);
}

/// Kills the processes of the program that still run.
pub(super) fn kill() {
    for child in children() {
        // Another thread may reap the child, and the PID may be reused. A descriptor always refers to the same process,
        // so the child must still exist after the descriptor was opened.
        let process = pidfd_open(child, PidfdFlags::empty());
        if let Some(process) = process.ok().filter(|_| children().contains(&child)) {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// The processes whose parent is this one.
fn children() -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own_pid = getpid().as_raw_nonzero().get().to_string();
    let child = |name: &str| {
        let pid = Pid::from_raw(name.parse().ok()?)?;
        let stat = std::fs::read(format!("/proc/{name}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The program's name is in parentheses and may contain any characters; the state and the parent's PID follow.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        (parent == own_pid).then_some(pid)
    };
    processes.filter_map(|process| child(process.ok()?.file_name().to_str()?)).collect()
}
