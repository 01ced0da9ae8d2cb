//! The supervisor of a run: a separate process in its own session that starts `sweep run` or `sweep propose`, accounts for
//! it and stops it at its bounds. It does not need the server that started it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsString,
    io,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process, setsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::account::{Account, Bounds, Limit};
use crate::{
    host::{clock, program},
    run::{Line, RunEvent, RunFolder, watch::Watch},
};

/// Interval between checks of the run.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of the run's standard error that the account keeps.
const SAID: usize = 4096;

/// Exit code of a run that has stopped before its end.
const ENDED: i32 = 128 + SIGTERM;

/// The folders of a run, with the numbers from their journals.
#[derive(Default)]
struct Meter {
    /// The runs that were there before; one of them may be of an earlier process of the same number.
    before: HashSet<String>,
    folders: BTreeMap<String, Watch>,
    /// Number of started attempts of jobs.
    jobs: usize,
    /// Running jobs with GPUs, each with its start and its number of GPUs.
    open: HashMap<(String, usize), (Timestamp, usize)>,
    /// Time on GPUs of jobs that have ended, in seconds.
    closed: f64,
}

/// Runs a command of this program within bounds. Its account is kept in the file `path`, its standard output beside it, with
/// the extension `out`. Ends with the command.
pub fn supervise(results: &Path, command: &[OsString], path: &Path, bounds: Bounds) -> io::Result<()> {
    // Signals to the group of the server are not meant for the run. It fails only where the process leads a session already.
    let _ = setsid();
    let stop_request = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop_request))?;
    }
    let log = path.with_extension("log");
    let mut meter = Meter { before: names(results).collect(), ..Meter::default() };
    let mut child = Command::new(program()?)
        .arg("--results")
        .arg(results)
        // The run itself starts no more jobs than allowed, because its journal may reach this process late.
        .args(["--max-starts", &bounds.jobs.to_string()])
        .args(command)
        .stdin(Stdio::null())
        .stdout(fs_err::File::create(path.with_extension("out"))?.into_file())
        .stderr(fs_err::File::create(&log)?.into_file())
        .spawn()?;
    let start = Instant::now();
    let mut account = Account::default();
    account.write(path)?;
    let mut is_stopped = false;
    loop {
        let exit = child.try_wait()?;
        let last_account = account.clone();
        meter.look(results, child.id());
        meter.enter(&mut account);
        account.usage.seconds = start.elapsed().as_secs_f64();
        if let Some(status) = exit {
            account.ended = true;
            account.code = status.code();
            let is_at_bound = !is_stopped && account.code == Some(ENDED) && account.usage.jobs >= bounds.jobs;
            account.stopped_by = account.stopped_by.or_else(|| is_at_bound.then_some(Limit::Jobs));
            account.says = tail(&log);
            return account.write(path);
        }
        if !is_stopped {
            account.stopped_by = bounds.exceeded(account.usage);
            if account.stopped_by.is_some() || stop_request.load(Ordering::Relaxed) {
                stop(&child);
                is_stopped = true;
            }
        }
        // The duration alone is known without the file.
        if (account.usage.jobs, account.usage.gpu_hours, &account.runs, account.stopped_by)
            != (last_account.usage.jobs, last_account.usage.gpu_hours, &last_account.runs, last_account.stopped_by)
        {
            account.write(path)?;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// The names of all runs.
fn names(results: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(results.join("runs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Asks a run to end: its jobs have a short time to save their states.
fn stop(child: &Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // An error is ignored: the process may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// The end of a text file.
fn tail(path: &Path) -> String {
    let bytes = fs_err::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SAID)..]).trim().to_owned()
}

impl Meter {
    /// Reads the new lines of the journals of a process's runs.
    fn look(&mut self, results: &Path, pid: u32) {
        let mark = format!("-{pid}");
        let is_new =
            |name: &String| name.contains(&mark) && !self.before.contains(name) && !self.folders.contains_key(name);
        let new_names: Vec<String> = names(results).filter(is_new).collect();
        for name in new_names {
            let folder = RunFolder::named(results, &name);
            // A folder without a complete manifest is read the next time.
            let is_own = folder.manifest().is_ok_and(|manifest| manifest.pid == pid);
            if let Some(watch) = is_own.then(|| Watch::new(folder).ok()).flatten() {
                self.folders.insert(name, watch);
            }
        }
        let mut new_lines = Vec::new();
        for (name, watch) in &mut self.folders {
            if let Ok((_, lines)) = watch.look() {
                new_lines.extend(lines.into_iter().map(|line| (name.clone(), line)));
            }
        }
        for (name, line) in new_lines {
            self.add(&name, &line);
        }
    }

    fn add(&mut self, run: &str, line: &Line) {
        let Some(job) = line.event.job() else { return };
        let job = (run.to_owned(), job);
        match &line.event {
            RunEvent::Started { gpus, .. } => {
                self.jobs += 1;
                self.open.insert(job, (line.at, gpus.len()));
            }
            RunEvent::Done { .. }
            | RunEvent::Failed { .. }
            | RunEvent::Stopped { .. }
            | RunEvent::Retrying { .. }
            | RunEvent::Skipped { .. } => {
                if let Some((start, gpus)) = self.open.remove(&job) {
                    self.closed += gpu_seconds(start, line.at, gpus);
                }
            }
            _ => {}
        }
    }

    fn enter(&self, account: &mut Account) {
        let now = clock::now();
        let open_seconds: f64 = self.open.values().map(|(start, gpus)| gpu_seconds(*start, now, *gpus)).sum();
        account.runs = self.folders.keys().cloned().collect();
        account.usage.jobs = self.jobs;
        account.usage.gpu_hours = (self.closed + open_seconds) / 3600.0;
    }
}

/// Time on GPUs, in seconds.
fn gpu_seconds(start: Timestamp, end: Timestamp, gpus: usize) -> f64 {
    end.duration_since(start).as_secs_f64().max(0.0) * gpus as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_on_gpus_counts_each_gpu_and_every_start_of_a_job_counts() {
        let line = |second: i64, event| Line {
            at: Timestamp::constant(second, 0),
            label: None,
            key: None,
            computation: None,
            event,
        };
        let started = |attempt| RunEvent::Started { job: 0, cpus: 1, gpus: vec![0, 1], attempt, host: None };
        let mut meter = Meter::default();
        for (second, event) in [
            (0, started(1)),
            (1800, RunEvent::Skipped { job: 0, because: None }),
            (2000, started(2)),
            (3800, RunEvent::Skipped { job: 0, because: None }),
        ] {
            meter.add("run", &line(second, event));
        }
        let mut account = Account::default();
        meter.enter(&mut account);
        assert_eq!((account.usage.jobs, account.usage.gpu_hours), (2, 2.0));
    }
}
