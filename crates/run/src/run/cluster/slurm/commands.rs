//! Slurm's commands: their arguments, and the meaning of their output. A command that fails or times out means
//! "unknown", never "ended".

use std::{
    collections::BTreeMap,
    io,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::geteuid;

use crate::{
    host::ask::{Answer, Children, Limits, converse},
    run::cluster::{BatchId, QueuedJob, QueuedState, Refusal},
};

/// Time limit of a command. Without a controller, `sinfo` hangs, and `sbatch` gives up after 9 s.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of jobs that are named in one `scancel`.
const CHUNK: usize = 500;

/// Asks Slurm about the jobs of one store.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Name of the jobs.
    pub name: String,
}

/// End of a job, from `scontrol`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub reason: String,
    pub nodes: String,
}

/// The state that a word of Slurm means.
fn state(word: &str) -> QueuedState {
    match word {
        "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            QueuedState::Pending
        }
        "CONFIGURING" | "RUNNING" | "COMPLETING" | "SUSPENDED" | "RESIZING" | "SIGNALING" | "STAGE_OUT" | "STOPPED" => {
            QueuedState::Running
        }
        "COMPLETED" => QueuedState::Completed,
        "CANCELLED" => QueuedState::Canceled,
        "FAILED" => QueuedState::Failed(word.to_owned()),
        other => QueuedState::Ended(other.to_owned()),
    }
}

#[expect(clippy::unused_self, reason = "whoever speaks to Slurm has a client, whatever it needs for that")]
impl Client {
    /// Hands over a job: the arguments for `sbatch`, and the script.
    pub(crate) fn submit(&self, arguments: &[String], script: &str) -> Result<BatchId, Refusal> {
        let mut command = slurm("sbatch");
        command.args(["--parsable", "--job-name", &self.name]).args(arguments);
        let answer = run(command, Some(script)).map_err(|error| Refusal::No(format!("sbatch: {error}")))?;
        if !answer.succeeded() {
            return Err(refusal(&answer));
        }
        // `ID`, or `ID;CLUSTER`.
        let id = answer.out().trim().split(';').next().and_then(|id| id.trim().parse::<u64>().ok());
        id.map(BatchId::from).ok_or_else(|| {
            Refusal::Unreachable(format!("sbatch answered {:?}, which is not a job", answer.out().trim()))
        })
    }

    /// Returns all jobs of this name that Slurm still lists, ended ones included.
    pub(crate) fn queue(&self) -> Result<Vec<QueuedJob>, String> {
        let mut command = slurm("squeue");
        let user = geteuid().as_raw().to_string();
        command.args(["-h", "-u", &user, "-n", &self.name, "-t", "all", "-o", "%A|%T|%r|%k"]);
        let answer = run(command, None).map_err(|error| format!("squeue: {error}"))?;
        match answer.status {
            Some(status) if status.success() => Ok(answer.out().lines().filter_map(seen).collect()),
            Some(_) => Err(format!("squeue: {}", last_words(&answer))),
            None => Err(format!("squeue does not respond within {} s", TIMEOUT.as_secs())),
        }
    }

    /// Cancels these jobs, or only the pending ones among them.
    pub(crate) fn cancel(&self, ids: &[BatchId], pending_only: bool) -> Result<(), String> {
        for chunk in ids.chunks(CHUNK) {
            let mut command = slurm("scancel");
            command.arg("--quiet");
            if pending_only {
                command.args(["--state", "PENDING"]);
            }
            command.args(chunk.iter().map(BatchId::as_str));
            let answer = run(command, None).map_err(|error| format!("scancel: {error}"))?;
            // `scancel` fails for jobs that have ended meanwhile, which need no signal.
            if !answer.succeeded() && is_unreachable(&answer) {
                return Err(format!("scancel: {}", last_words(&answer)));
            }
        }
        Ok(())
    }

    /// Sends SIGINT to the programs of these jobs, and to nothing that they have started.
    pub(crate) fn interrupt(&self, ids: &[BatchId]) {
        for chunk in ids.chunks(CHUNK) {
            let mut command = slurm("scancel");
            command.args(["--quiet", "--batch", "--signal=INT"]).args(chunk.iter().map(BatchId::as_str));
            // Jobs that miss the signal are canceled later.
            let _ = run(command, None);
        }
    }

    /// Returns the end of a job, while Slurm has it.
    pub(crate) fn end(&self, id: &BatchId) -> Option<End> {
        let mut command = slurm("scontrol");
        command.args(["show", "job", "-o", id.as_str()]);
        let answer = run(command, None).ok().filter(Answer::succeeded)?;
        Some(end(&answer.out()))
    }

    /// The state of a job that the queue has forgotten, where there is an accounting that remembers.
    pub(crate) fn remembered(&self, id: &BatchId) -> Option<QueuedState> {
        let mut command = slurm("sacct");
        command.args(["-n", "-X", "-P", "-o", "State", "-j", id.as_str()]);
        let answer = run(command, None).ok().filter(Answer::succeeded)?;
        // `CANCELLED by 1000`.
        answer.out().lines().next()?.split_whitespace().next().map(state)
    }
}

/// True if Slurm is available.
pub(crate) fn is_here() -> bool {
    let mut command = slurm("sbatch");
    command.arg("--version");
    run(command, None).is_ok_and(|answer| answer.succeeded())
}

/// Creates one of Slurm's commands. Inside a job, its `SLURM_` variables are removed, because they would count as options of the new job.
fn slurm(program: &str) -> Command {
    let mut command = Command::new(program);
    if std::env::var_os("SLURM_JOB_ID").is_some() {
        let names = std::env::vars_os().map(|(name, _)| name);
        for name in names.filter(|name| name.to_string_lossy().starts_with("SLURM_") && name != "SLURM_CONF") {
            command.env_remove(name);
        }
    }
    // Words in the language of the texts that are looked for.
    command.env("LC_ALL", "C");
    command
}

fn last_words(answer: &Answer) -> String {
    let text = answer.last_words().unwrap_or("it ended without a message");
    ["sbatch: error: ", "squeue: error: ", "scancel: error: "]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text)
        .to_owned()
}

fn refusal(answer: &Answer) -> Refusal {
    // Every line is kept: the first has the cause, the last only reports the failure.
    let lines =
        answer.complaint.lines().map(|line| line.trim().trim_start_matches("sbatch: ").trim_start_matches("error: "));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = if lines.is_empty() { "sbatch failed without a message".to_owned() } else { lines.join("; ") };
    if is_unreachable(answer) {
        Refusal::Unreachable(text)
    } else if text.contains("SubmitJob") || text.contains("job submit limit") || text.contains("MaxJobCount") {
        Refusal::Full(text)
    } else {
        Refusal::No(text)
    }
}

/// True if a command failed because it could not reach the controller, or because that timed out.
fn is_unreachable(answer: &Answer) -> bool {
    const WORDS: &[&str] = &[
        "unable to contact slurm controller",
        "socket timed out",
        "connection refused",
        "connection timed out",
        "zero bytes were transmitted",
        "temporarily unable",
        "resource temporarily unavailable",
        "communication connection failure",
        "unexpected message received",
        "backup controller",
        // Slurm has just forgotten the parent job; the next submission does not name it anymore.
        "job dependency problem",
    ];
    let complaint = answer.complaint.to_lowercase();
    answer.status.is_none() || WORDS.iter().any(|words| complaint.contains(words))
}

/// A line of `squeue`.
fn seen(line: &str) -> Option<QueuedJob> {
    let mut fields = line.splitn(4, '|');
    let id = fields.next()?.trim().parse::<u64>().ok()?.into();
    let state = state(fields.next()?.trim());
    let reason = fields.next()?.trim().to_owned();
    let tag = fields.next().unwrap_or_default().trim().to_owned();
    let orphaned = reason == "DependencyNeverSatisfied";
    Some(QueuedJob { id, state, reason, tag, orphaned })
}

/// End of a job in the output of `scontrol show job -o`.
fn end(text: &str) -> End {
    let fields: BTreeMap<&str, &str> = text.split_whitespace().filter_map(|field| field.split_once('=')).collect();
    let numbers = fields.get("ExitCode").and_then(|code| code.split_once(':'));
    let number = |text: &str| text.parse::<i32>().ok().filter(|number| *number != 0);
    let word = |name| fields.get(name).copied().filter(|word| *word != "(null)" && *word != "None").unwrap_or_default();
    End {
        code: numbers.and_then(|(code, _)| number(code)),
        signal: numbers.and_then(|(_, signal)| number(signal)),
        reason: word("Reason").to_owned(),
        nodes: word("NodeList").to_owned(),
    }
}

/// Runs a command until it ends or times out.
fn run(mut command: Command, input: Option<&str>) -> io::Result<Answer> {
    let limits = Limits { most: usize::MAX, until: Instant::now() + TIMEOUT, children: Children::Left };
    converse(&mut command, input.map(|input| input.as_bytes().to_vec()), limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::cluster::job_tag::JobTag;

    #[test]
    fn lines_of_the_queue_are_understood() {
        let key = "ab".repeat(32);
        let line = format!("12|PENDING|ReqNodeNotAvail, May be reserved|20260101T000000Z-7|{key}|2");
        let job = seen(&line).unwrap();
        assert_eq!(
            (job.id, job.state, job.reason.as_str()),
            (12.into(), QueuedState::Pending, "ReqNodeNotAvail, May be reserved")
        );
        let tag: JobTag = job.tag.parse().unwrap();
        assert_eq!((tag.run.as_str(), tag.key.to_string(), tag.submission), ("20260101T000000Z-7", key, 2));
        assert!(!job.orphaned);
        assert_eq!(seen("13|OUT_OF_MEMORY|None|").unwrap().state, QueuedState::Ended("OUT_OF_MEMORY".into()));
        assert!(seen("14|CANCELLED|DependencyNeverSatisfied|x").unwrap().orphaned);
        assert_eq!(seen("slurm_load_jobs error"), None);
    }

    #[test]
    fn ends_are_understood() {
        let text = "JobId=7 JobName=x JobState=FAILED Reason=NonZeroExitCode ExitCode=75:0 NodeList=n1 Comment=a";
        let end = end(text);
        assert_eq!(
            (end.code, end.signal, end.reason.as_str(), end.nodes.as_str()),
            (Some(75), None, "NonZeroExitCode", "n1")
        );
    }

    #[test]
    fn refusals_are_told_apart() {
        let answer = |complaint: &str| Answer {
            status: None,
            text: Vec::new(),
            bytes: 0,
            digest: blake3::hash(b""),
            complaint: complaint.to_owned(),
        };
        let failed = |complaint: &str| {
            let status = Command::new("false").status().ok();
            refusal(&Answer { status, ..answer(complaint) })
        };
        assert!(matches!(
            failed("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"),
            Refusal::Unreachable(_)
        ));
        assert!(matches!(
            failed(
                "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
            ),
            Refusal::Full(_)
        ));
        let Refusal::No(text) = failed(
            "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified",
        ) else {
            panic!("it was refused")
        };
        assert_eq!(
            text,
            "invalid partition specified: nope; Batch job submission failed: Invalid partition name specified"
        );
        assert!(matches!(refusal(&answer("")), Refusal::Unreachable(_)), "it did not answer in time");
    }
}
