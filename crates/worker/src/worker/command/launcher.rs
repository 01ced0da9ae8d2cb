//! Processes of a program that another program starts: Slurm's `srun`, on all nodes of an allocation, or the `mpirun` of an
//! MPI. Both label the lines of the processes, and both end all of them when one fails.

use std::{
    borrow::Cow,
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    process::{self, ExitStatus},
    time::{Duration, Instant},
};

use signal_hook::consts::{SIGKILL, SIGTERM};
use sweep_job::{
    Failure, FailureKind, Job,
    tasks::{Command, Launch},
};

use crate::host;

/// Sets the variables of a process that `srun` has started, and becomes the program.
const UNDER_SRUN: &str = r"
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID NODE_RANK=$SLURM_NODEID
export MASTER_ADDR=${SLURM_LAUNCH_NODE_IPADDR:-$MASTER_ADDR}
";
/// Sets the variables under Open MPI, MPICH and relatives of MPICH. They insert labels within a line that is written in parts, and may mix
/// lines of several processes; so only the first process writes to standard output.
const UNDER_MPIRUN: &str = r"
RANK=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$PMIX_RANK}}
export RANK LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$((RANK % LOCAL_WORLD_SIZE))}}
export NODE_RANK=$((RANK / LOCAL_WORLD_SIZE))
[ $RANK = 0 ] || exec 1>&2
";
/// Gives the process its part of the node's GPUs.
const OWN_GPUS: &str = r#"
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  gpus=$(printf '%s\n' "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | wc -l)
  first=$((LOCAL_RANK * gpus / LOCAL_WORLD_SIZE + 1)) last=$(((LOCAL_RANK + 1) * gpus / LOCAL_WORLD_SIZE))
  CUDA_VISIBLE_DEVICES=
  [ $last -lt $first ] || CUDA_VISIBLE_DEVICES=$(printf '%s\n' "$GPUS_OF_NODE" | cut -d, -f$first-$last)
fi
"#;
/// The last part of both scripts.
const BECOME_THE_PROGRAM: &str = r#"export SWEEP_RANK=$RANK
exec "$@""#;

/// Time for Slurm to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of the output of Slurm's commands, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// A start of processes by another program.
#[derive(Debug, Clone)]
pub(super) struct Launcher {
    with: With,
    launch: Launch,
    nodes: usize,
    ranks: usize,
    threads: usize,
    port: u16,
    /// Name of the processes in Slurm.
    name: String,
}

/// The program that starts others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum With {
    Srun,
    /// The `mpirun` of Open MPI.
    OpenMpi,
    /// The `mpirun` of MPICH, or of another MPI with the same options.
    Mpich,
}

/// A failed process, as its launcher reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) rank: usize,
    /// Its end, if it is known.
    pub(super) status: Option<ExitStatus>,
}

impl Failed {
    /// True if a signal ended the process. Launchers end the other processes by signals once one has failed.
    pub(super) fn was_ended(self) -> bool {
        self.status.is_some_and(|status| {
            matches!(status.signal(), Some(SIGKILL | SIGTERM)) || matches!(status.code(), Some(137 | 143))
        })
    }
}

impl Launcher {
    /// The launcher of a job's program; `None` if the worker starts its processes itself.
    pub(super) fn of(command: &Command, job: &Job) -> Result<Option<Self>, Failure> {
        let failure = |message: String| Failure { kind: FailureKind::Input, message };
        let Some(launch) = command.launch else { return Ok(None) };
        let with = match launch {
            Launch::Srun => With::Srun,
            Launch::Mpirun => mpi().ok_or_else(|| failure("there is no working `mpirun` on the PATH".into()))?,
            Launch::Torchrun | Launch::Processes if job.nodes > 1 => With::Srun,
            Launch::Torchrun | Launch::Processes | Launch::Fork => return Ok(None),
        };
        if with == With::Srun && allocation().is_none() {
            let message = "`srun` starts processes in an allocation of Slurm only: run with `--executor slurm`";
            return Err(failure(message.into()));
        }
        let ranks = command.processes();
        let port = TcpListener::bind(("0.0.0.0", 0)).and_then(|listener| listener.local_addr());
        let port = port.map_err(|error| failure(format!("there is no free port for the processes: {error}")))?.port();
        let ranks_per_node = (ranks / job.nodes.max(1)).max(1);
        let (nodes, threads) = (job.nodes.max(1), (job.threads / ranks_per_node).max(1));
        // The job's folder is `…/KEY/files`.
        let key = job.dir.parent().and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy();
        let name = format!("sweep-{}", key.chars().take(12).collect::<String>());
        Ok(Some(Self { with, launch, nodes, ranks, threads, port, name }))
    }

    /// True if the processes are this process's descendants.
    pub(super) fn is_local(&self) -> bool {
        self.with != With::Srun && self.nodes == 1
    }

    /// Number of processes on each node.
    fn each(&self) -> usize {
        (self.ranks / self.nodes).max(1)
    }

    /// Wraps each program in the command that starts its processes, and ends processes of an earlier start.
    pub(super) fn wrap_all(&self, programs: &[process::Command]) -> Vec<process::Command> {
        let wrapped_programs = programs.iter().map(|program| self.wrap(program)).collect();
        self.clear();
        wrapped_programs
    }

    /// The command that starts all processes of a program.
    fn wrap(&self, program: &process::Command) -> process::Command {
        let mut wrapper = process::Command::new(if self.with == With::Srun { "srun" } else { "mpirun" });
        wrapper.args(self.arguments());
        let gpu_setup = if self.launch == Launch::Processes {
            format!("GPUS_OF_NODE=${{CUDA_VISIBLE_DEVICES:-}}{OWN_GPUS}")
        } else {
            String::new()
        };
        let ranks = if self.with == With::Srun { UNDER_SRUN } else { UNDER_MPIRUN };
        wrapper.args(["sh", "-c", &[ranks, &gpu_setup, BECOME_THE_PROGRAM].concat(), "rank"]);
        wrapper.arg(program.get_program()).args(program.get_args());
        if let Some(folder) = program.get_current_dir() {
            wrapper.current_dir(folder);
        }
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => wrapper.env(name, value),
                None => wrapper.env_remove(name),
            };
        }
        let main_address = if self.nodes > 1 { host::name() } else { "127.0.0.1".to_owned() };
        wrapper.env("MASTER_ADDR", main_address).env("MASTER_PORT", self.port.to_string());
        wrapper.env("WORLD_SIZE", self.ranks.to_string()).env("LOCAL_WORLD_SIZE", self.each().to_string());
        wrapper.env("SWEEP_THREADS", self.threads.to_string());
        if std::env::var_os("OMP_NUM_THREADS").is_none() {
            wrapper.env("OMP_NUM_THREADS", self.threads.to_string());
        }
        wrapper
    }

    fn arguments(&self) -> Vec<String> {
        let (ranks, ranks_per_node) = (self.ranks, self.each());
        match self.with {
            With::Srun => vec![
                format!("--nodes={}", self.nodes),
                format!("--ntasks={ranks}"),
                format!("--ntasks-per-node={ranks_per_node}"),
                format!("--cpus-per-task={}", self.threads),
                format!("--job-name={}", self.name),
                "--kill-on-bad-exit=1".into(),
                "--input=none".into(),
                "--export=ALL".into(),
                "--label".into(),
            ],
            With::OpenMpi => {
                let mut arguments = vec!["-n".into(), ranks.to_string(), "--tag-output".into()];
                if self.nodes > 1 {
                    arguments.extend(["--map-by".into(), format!("ppr:{ranks_per_node}:node")]);
                } else {
                    arguments.push("--oversubscribe".into());
                }
                arguments
            }
            With::Mpich => {
                vec!["-n".into(), ranks.to_string(), "-ppn".into(), ranks_per_node.to_string(), "-prepend-rank".into()]
            }
        }
    }

    /// The rank that has written a line, and the line without its label; `None` for a line of the launcher.
    pub(super) fn labeled<'l>(&self, line: &'l [u8]) -> Option<(usize, Cow<'l, [u8]>)> {
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.trim().parse::<usize>().ok();
        let split_at_mark = |mark: u8| {
            let index = line.iter().position(|byte| *byte == mark)?;
            Some((line.get(..index)?, line.get(index + 1..)?))
        };
        let (rank, rest) = match self.with {
            With::Srun => {
                let (label, rest) = split_at_mark(b':')?;
                (number(label)?, Cow::Borrowed(rest.strip_prefix(b" ").unwrap_or(rest)))
            }
            With::OpenMpi | With::Mpich => {
                let (label, rest) = split_at_mark(b']')?;
                let label = label.strip_prefix(b"[")?;
                let rank = label.rsplit(|byte| *byte == b',').next().and_then(number)?;
                let streams = [b"<stdout>:".as_slice(), b"<stderr>:"];
                match streams.into_iter().find_map(|tag| Some((tag, rest.strip_prefix(tag)?))) {
                    Some((tag, rest)) => (rank, without(rest, &[b"[", label, b"]", tag].concat())),
                    None => (rank, Cow::Borrowed(rest.strip_prefix(b" ").unwrap_or(rest))),
                }
            }
        };
        (rank < self.ranks).then_some((rank, rest))
    }

    /// Returns the failure that the launcher reports in `line`, if any.
    pub(super) fn failed(&self, line: &str) -> Option<Failed> {
        match self.with {
            With::Srun => failed_task(line),
            With::OpenMpi => {
                let name = line.trim().strip_prefix("Process name: [[")?;
                let rank = name.trim_end_matches(']').rsplit(',').next()?.parse().ok()?;
                Some(Failed { rank, status: None })
            }
            With::Mpich => None,
        }
    }

    /// Ends processes of this job that the launcher has left on other nodes. Processes that Slurm does not end now end with
    /// the allocation.
    pub(super) fn clear(&self) {
        let Some(allocation) = allocation().filter(|_| self.with == With::Srun) else { return };
        let ask = |program: &str, arguments: &[&str]| {
            host::ask(process::Command::new(program).args(arguments), MAX_ANSWER_BYTES, Instant::now() + TIMEOUT)
        };
        let Some(listing) = ask("squeue", &["--steps", "--jobs", &allocation, "--noheader", "--format", "%i %j"])
        else {
            return;
        };
        let listing = String::from_utf8_lossy(&listing.text).into_owned();
        let own_steps =
            listing.lines().filter_map(|line| line.trim().split_once(' ').filter(|(_, name)| *name == self.name));
        for (step, _) in own_steps {
            let _ = ask("scancel", &["--signal=KILL", step]);
        }
    }
}

/// Removes `label` from a line.
fn without<'l>(line: &'l [u8], label: &[u8]) -> Cow<'l, [u8]> {
    let mut remainder = line;
    let mut result = Vec::new();
    while let Some(index) = remainder.windows(label.len()).position(|part| part == label) {
        result.extend_from_slice(&remainder[..index]);
        remainder = &remainder[index + label.len()..];
    }
    if result.is_empty() && remainder.len() == line.len() {
        return Cow::Borrowed(line);
    }
    result.extend_from_slice(remainder);
    Cow::Owned(result)
}

/// Slurm's number of the allocation in which this process runs.
fn allocation() -> Option<String> {
    std::env::var("SLURM_JOB_ID").ok().filter(|id| !id.is_empty())
}

/// The MPI whose `mpirun` is on the `PATH`.
fn mpi() -> Option<With> {
    let answer =
        host::ask(process::Command::new("mpirun").arg("--version"), MAX_ANSWER_BYTES, Instant::now() + TIMEOUT)?;
    let text = String::from_utf8_lossy(&answer.text).to_lowercase();
    Some(if text.contains("open mpi") || text.contains("open-mpi") { With::OpenMpi } else { With::Mpich })
}

/// Reads `srun: error: NODE: task 3: Exited with exit code 5`; of several tasks, the first.
fn failed_task(line: &str) -> Option<Failed> {
    let rest = line.strip_prefix("srun: error: ")?;
    let (_, tasks) = rest.split_once(": task")?;
    let (tasks, outcome) = tasks.strip_prefix('s').unwrap_or(tasks).trim_start().split_once(": ")?;
    let rank = tasks.split([',', '-']).next()?.parse().ok()?;
    let code = outcome.strip_prefix("Exited with exit code ").and_then(|code| code.trim().parse::<i32>().ok());
    let signal = || {
        Some(match outcome.trim_end_matches(" (core dumped)") {
            "Killed" | "Out Of Memory" => 9,
            "Terminated" => 15,
            "Segmentation fault" => 11,
            "Aborted" => 6,
            "Bus error" => 7,
            "Floating point exception" => 8,
            "Illegal instruction" => 4,
            _ => return None,
        })
    };
    let raw_status = code.map(|code| code << 8).or_else(signal);
    Some(Failed { rank, status: raw_status.map(ExitStatus::from_raw) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(with: With) -> Launcher {
        let launch = Launch::Torchrun;
        Launcher { with, launch, nodes: 2, ranks: 12, threads: 1, port: 1, name: "sweep-x".into() }
    }

    #[test]
    fn processes_that_a_signal_ends_are_told_from_those_that_fail() {
        let was_ended = |line: &str| launcher(With::Srun).failed(line).map(Failed::was_ended);
        assert_eq!(was_ended("srun: error: n1: tasks 0-1: Killed"), Some(true));
        assert_eq!(was_ended("srun: error: n1: task 0: Exited with exit code 143"), Some(true));
        assert_eq!(was_ended("srun: error: n2: task 3: Exited with exit code 4"), Some(false));
    }

    #[test]
    fn lines_have_the_rank_that_wrote_them() {
        let rank_and_text = |with, line: &str| {
            let labeled_line = launcher(with).labeled(line.as_bytes()).map(|(rank, rest)| (rank, rest.to_vec()));
            labeled_line.map(|(rank, rest)| (rank, String::from_utf8(rest).unwrap()))
        };
        let is = |rank, text: &str| Some((rank, text.to_owned()));
        assert_eq!(rank_and_text(With::Srun, "3: loss=1: 2"), is(3, "loss=1: 2"));
        assert_eq!(rank_and_text(With::Srun, " 3:   indented"), is(3, "  indented"));
        assert_eq!(rank_and_text(With::Srun, "11: "), is(11, ""));
        for line in ["srun: error: n2: task 3: Exited with exit code 3", "12: beyond", "x", "", ":", "-1: x"] {
            assert_eq!(rank_and_text(With::Srun, line), None, "{line}");
        }
        assert_eq!(rank_and_text(With::OpenMpi, "[1,3]<stdout>:loss=1"), is(3, "loss=1"));
        assert_eq!(rank_and_text(With::OpenMpi, "[1,11]<stderr>: text"), is(11, " text"));
        assert_eq!(rank_and_text(With::OpenMpi, "[1,3]<stdout>:loss[1,3]<stdout>:=1[1,3]<stdout>:"), is(3, "loss=1"));
        assert_eq!(rank_and_text(With::Mpich, "[3] [x] y"), is(3, "[x] y"));
        for line in ["mpirun noticed", "[host:12] error", "[", "[]", "[1,99]<stdout>:x"] {
            assert_eq!(rank_and_text(With::OpenMpi, line), None, "{line}");
        }
    }

    #[test]
    fn the_first_process_that_failed_is_known() {
        let raw_status = |line: &str| {
            let task = failed_task(line)?;
            Some((task.rank, task.status.map(ExitStatusExt::into_raw)))
        };
        assert_eq!(raw_status("srun: error: n2: task 3: Exited with exit code 5"), Some((3, Some(5 << 8))));
        assert_eq!(raw_status("srun: error: n1: tasks 4-5,7: Killed"), Some((4, Some(9))));
        assert_eq!(raw_status("srun: error: n1: task 0: Segmentation fault (core dumped)"), Some((0, Some(11))));
        assert_eq!(raw_status("srun: error: n1: task 0: Something new"), Some((0, None)));
        for line in ["srun: error: n1: task x: Killed", "srun: error: n1: tasks", "task 3: Killed", ""] {
            assert_eq!(raw_status(line), None, "{line}");
        }
        let mpi = launcher(With::OpenMpi).failed("  Process name: [[58637,1],7]").unwrap();
        assert_eq!((mpi.rank, mpi.status), (7, None));
    }
}
