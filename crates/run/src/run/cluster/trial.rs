//! A trial job: runs this program through a batch system and compares the environment there with this machine's.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use fs_err as fs;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    BatchId, BatchJob, CancelScope, Cluster, QueuedJob, QueuedState, Refusal, Request, Work, job_tag::JobTag,
    session::Launch,
};
use crate::{
    host::{
        clock,
        finding::Finding,
        machine,
        replaced::{Outlives, Readers, replace},
    },
    record::Key,
};

/// Difference of two clocks above which times of records mislead.
const SKEW: SignedDuration = SignedDuration::from_secs(2);
/// Interval at which the result is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between polls of the queue.
const POLL: Duration = Duration::from_secs(2);
/// Time between the end of the job and the moment at which its result must be visible.
const LAG: Duration = Duration::from_mins(1);

/// Facts that the trial job writes on the machine that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialNote {
    /// The machine's name.
    pub host: String,
    /// The time there.
    pub at: Timestamp,
    /// The program's version.
    pub version: String,
    /// Cores that the process may use.
    pub cpus: usize,
    /// Main memory in bytes.
    pub memory: u64,
    /// The GPUs that the process sees.
    pub gpus: Vec<String>,
    /// True if `python3` is on the PATH.
    pub python: bool,
}

/// The folder of the results folder in which trial jobs write.
fn folder(results: &Path) -> PathBuf {
    results.join("doctor")
}

/// Writes the note of a trial job; called on the machine that runs it.
///
/// # Errors
/// The results folder cannot be written there.
pub fn write_note(results: &Path, name: &str) -> io::Result<()> {
    let note = TrialNote {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        at: clock::now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cpus: machine::cpus(),
        memory: machine::memory(),
        gpus: machine::nvidia_gpus(),
        python: on_path("python3"),
    };
    let path = folder(results).join(format!("{name}.json"));
    replace(&path, &serde_json::to_vec(&note)?, Readers::All, Outlives::Process)
}

/// True if a program is on the PATH.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Checks a batch system: it can be used, it responds, and a trial job with `gpus` GPUs runs this program there within
/// `patience` and writes where this process reads.
pub fn examine(cluster: &dyn Cluster, results: &Path, gpus: usize, patience: Duration) -> Vec<Finding> {
    let system = cluster.system();
    if let Some(reason) = cluster.unavailable() {
        return vec![Finding::failed("client", format!("{system} cannot be used here"), reason)];
    }
    let start = Instant::now();
    let mut findings = match cluster.poll() {
        Ok(jobs) => {
            let live_jobs = jobs.iter().filter(|job| job.state.is_live()).count();
            let jobs = crate::format::count(live_jobs, "job");
            let took = start.elapsed().as_secs_f64() * 1e3;
            vec![Finding::good("queue", format!("{system} responds in {took:.0} ms; it has {jobs} of this store"))]
        }
        Err(error) => {
            let help = "start the system or correct its address; runs wait until it responds";
            return vec![Finding::failed("queue", format!("{system} does not respond: {error}"), help)];
        }
    };
    findings.extend(cluster.examine(gpus));
    if cluster.has_shared_folder() {
        findings.extend(Trial { cluster, results, gpus }.run(patience));
    }
    findings
}

struct Trial<'a> {
    cluster: &'a dyn Cluster,
    results: &'a Path,
    gpus: usize,
}

impl Trial<'_> {
    fn run(&self, patience: Duration) -> Vec<Finding> {
        let start = Timestamp::now();
        let name =
            format!("trial-{}", &blake3::hash(format!("{start}{}", std::process::id()).as_bytes()).to_hex()[..12]);
        let launch = match self.launch() {
            Ok(launch) => launch,
            Err(error) => {
                let help = "choose a results folder that this user can write to (`--results`)";
                return vec![Finding::failed("results folder", error.to_string(), help)];
            }
        };
        let note = folder(self.results).join(format!("{name}.json"));
        let output = launch.output(&format!("{name}.txt"));
        let id = match self.submit(&launch, &name, output.clone()) {
            Ok(id) => id,
            Err(Refusal::Full(error) | Refusal::No(error) | Refusal::Unreachable(error)) => {
                let help = "the options in `executor`, the account and the limits of this user decide what is accepted";
                let says = format!("{} does not accept a job: {error}", self.cluster.system());
                return vec![Finding::failed("submission", says, help)];
            }
        };
        let submitted = Instant::now();
        let findings = match self.wait(&id, &note, patience) {
            Ok(text) => match serde_json::from_slice::<TrialNote>(&text) {
                Ok(note) => self.compare(&note, start, submitted.elapsed()),
                Err(error) => {
                    vec![Finding::failed("trial job", format!("its file cannot be read: {error}"), "run it again")]
                }
            },
            Err(says) => {
                let text = fs::read_to_string(&output).unwrap_or_default();
                let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                let last: String = last.chars().take(300).collect();
                let last_words = if last.is_empty() { String::new() } else { format!("; its last output: {last}") };
                let help = "the program and the results folder must have the same paths on all machines";
                vec![Finding::failed("trial job", format!("{says}{last_words}"), help)]
            }
        };
        for path in [note, output.with_extension("sh"), output] {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(folder(self.results));
        findings
    }

    fn launch(&self) -> io::Result<Launch> {
        let results = std::path::absolute(self.results)?;
        let outputs = folder(&results);
        fs::create_dir_all(&outputs)?;
        Ok(Launch { program: std::env::current_exe()?, folder: std::env::current_dir()?, results, outputs })
    }

    fn submit(&self, launch: &Launch, name: &str, output: PathBuf) -> Result<BatchId, Refusal> {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        let key: Key = hash.parse().map_err(|_| Refusal::No("no key could be made".to_owned()))?;
        let tag = JobTag { run: "doctor".to_owned(), key, submission: 1 };
        let request = Request {
            nodes: 1,
            processes: 1,
            cpus: 1,
            memory: None,
            gpus: self.gpus,
            gpu_share: None,
            exclusive: false,
            time: Some(Duration::from_mins(5)),
        };
        self.cluster.submit(&BatchJob {
            tag: tag.to_string(),
            output,
            folder: &launch.folder,
            script: launch.script(&format!("exec-trial {name}")),
            work: Work::Job { key, run: "doctor", at: 0 },
            request,
            step: None,
            after: &[],
        })
    }

    /// Waits for the note of the job.
    fn wait(&self, id: &BatchId, note: &Path, patience: Duration) -> Result<Vec<u8>, String> {
        let start = Instant::now();
        let (mut last_look, mut ending): (Instant, Option<(Instant, String)>) = (start, None);
        loop {
            if let Ok(text) = fs::read(note) {
                return Ok(text);
            }
            if let Some((since, how)) = &ending
                && since.elapsed() >= LAG.min(patience)
            {
                return Err(format!("it has ended ({how}) and its file is not visible here"));
            }
            if start.elapsed() >= patience {
                let _ = self.cluster.cancel(std::slice::from_ref(id), CancelScope::All);
                return Err(format!("it has not run within {} s and was canceled", patience.as_secs()));
            }
            if last_look.elapsed() >= POLL && ending.is_none() {
                last_look = Instant::now();
                let queue = self.cluster.poll().unwrap_or_default();
                let queued = queue.into_iter().find(|job| job.id == *id);
                ending = queued.and_then(|job| self.ending(&job)).map(|how| (Instant::now(), how));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// End of a job; `None` if it has not ended.
    fn ending(&self, job: &QueuedJob) -> Option<String> {
        match &job.state {
            QueuedState::Pending | QueuedState::Running => None,
            QueuedState::Completed => Some("completed".to_owned()),
            QueuedState::Canceled => Some("canceled".to_owned()),
            QueuedState::Failed(word) | QueuedState::Ended(word) => {
                Some(format!("{:?}", self.cluster.ending(&job.id, word).cause))
            }
        }
    }

    fn compare(&self, note: &TrialNote, start: Timestamp, took: Duration) -> Vec<Finding> {
        let host = &note.host;
        let memory = crate::format::quantity(note.memory as f64, sweep_job::Unit::Bytes);
        let cores = crate::format::count(note.cpus, "core");
        let says =
            format!("it ran on {host} ({cores}, {memory}), and its file was here after {:.1} s", took.as_secs_f64());
        let mut findings = vec![Finding::good("trial job", says)];
        let own_version = env!("CARGO_PKG_VERSION");
        if note.version != own_version {
            let says = format!("{host} runs version {}, this is {own_version}", note.version);
            findings.push(Finding::failed("program", says, "use the same file on all machines"));
        }
        let (early, late) = (start - SKEW, Timestamp::now() + SKEW);
        if note.at < early || note.at > late {
            let off =
                if note.at < early { start.duration_since(note.at) } else { note.at.duration_since(Timestamp::now()) };
            let says = format!("the clock of {host} is off by {} s", off.as_secs());
            findings.push(Finding::doubtful(
                "clock",
                says,
                "synchronize the clocks (NTP); times of records would mislead",
            ));
        } else {
            findings.push(Finding::good("clock", format!("that of {host} agrees with that of this machine")));
        }
        let gpus_seen = note.gpus.len();
        match self.gpus {
            0 => {}
            expected if gpus_seen >= expected => {
                findings.push(Finding::good(
                    "GPUs",
                    format!("{host} shows {} to the job", crate::format::count(gpus_seen, "GPU")),
                ));
            }
            expected => {
                let says = format!("the job requested {} and sees {gpus_seen}", crate::format::count(expected, "GPU"));
                let help = "the system must set CUDA_VISIBLE_DEVICES, and a driver must be on the machine";
                findings.push(Finding::failed("GPUs", says, help));
            }
        }
        if !note.python {
            let says = format!("there is no `python3` on the PATH of {host}");
            findings.push(Finding::doubtful("python", says, "recipes whose steps start Python need it"));
        }
        findings
    }
}
