//! Conditions under which a job ran: the machine, its load, the run, and the program's environment. Conditions are
//! shown, and times are compared only under like conditions; none of them is part of a key.

use serde::{Deserialize, Serialize};
use sweep_job::Unit;

use crate::format::{clean, count, quantity};

/// Conditions under which a job ran. Undetermined conditions are absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// The machine.
    pub machine: Machine,
    /// Exclusive use of the machine.
    pub exclusive: Exclusivity,
    /// Load average over one minute when the job started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_before: Option<f64>,
    /// Load average over one minute when the job ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_after: Option<f64>,
    /// Mean number of cores that the job kept busy, with all processes that it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<f64>,
    /// Mean number of cores of the machine that all other processes kept busy while the job ran, including cores that a
    /// hypervisor took. Absent for a job that was too short for the kernel's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<f64>,
    /// Largest number of other jobs that the same engine ran at the same time.
    pub neighbors: usize,
    /// Number of attempts, including the successful one.
    pub attempts: u32,
    /// GPUs that the job had, if it had any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUse>,
    /// Seeds of the job's step in the plan when the job ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seeds: Option<SeedPlan>,
    /// The run that the job belonged to.
    pub run: RunConditions,
    /// The program of a `command` job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<Interpreter>,
    /// Identifier of the environment that the program was observed to use; the store has its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// A machine, as its kernel describes it. In a container these are the host's figures, except `usable`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Operating system and its architecture: `Linux x86_64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Model of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Cores (logical processors) of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Cores that the engine may use.
    pub usable: usize,
    /// Main memory that the engine may use, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Governors of the processors' frequencies, different ones joined by `+`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Driver of the job's device and its version, as the probe of the devices found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

/// Exclusive use of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Exclusivity {
    /// True if the recipe requests it.
    pub asked: bool,
    /// True if no other job ran on the machine at the same time.
    pub held: bool,
}

/// GPUs that a job had, and their memory.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuUse {
    /// Number of GPUs.
    pub devices: usize,
    /// Part of each GPU that the job was given, from 0 to 1; 0 if the job had only a part of the memory.
    pub share: f64,
    /// True if the recipe lets other jobs use the rest of the GPU.
    pub shares: bool,
    /// Bytes of memory that were reserved for the job on each of its GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
    /// Largest sampled memory use on one of its GPUs, in bytes, summed over the processes of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Bytes that were reserved for an attempt that ran out of memory on a shared GPU, 0 if unknown; the job then ran
    /// again on a whole one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<u64>,
}

impl GpuUse {
    /// The GPUs in words.
    pub fn describe(&self) -> String {
        let bytes = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
        let mut text = match (self.share, self.reserved) {
            (1.0, _) => count(self.devices, "whole GPU"),
            (0.0, _) => "a part of the memory of a GPU".to_owned(),
            (share, _) => format!("{share} of a GPU"),
        };
        if let Some(reserved) = self.reserved {
            text = format!("{text}, {} reserved", bytes(reserved));
        }
        if let Some(peak) = self.peak {
            text = format!("{text}, peak {}", bytes(peak));
        }
        match self.exhausted {
            None => text,
            Some(0) => format!("{text}, after an attempt that ran out of memory on a shared GPU"),
            Some(memory) => {
                format!("{text}, after an attempt for which {} of a shared GPU were not enough", bytes(memory))
            }
        }
    }
}

/// Seeds of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeedPlan {
    /// Number of seeds that every point has.
    pub least: usize,
    /// Maximum number of seeds of a point; more than `least` only for adaptive seeds.
    pub most: usize,
}

/// Run that a job belonged to: the job's place in the run, and the program and arguments of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConditions {
    /// Name of the run's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Round of a measuring step, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
    /// Position in the round, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// BLAKE3 digest of the `sweep` program, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Name of the user who started the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// State of the Git repository that contains the recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitState>,
    /// Arguments of the command line; arguments that look like secrets are masked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

/// State of a Git repository.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GitState {
    /// The commit that is checked out.
    pub commit: String,
    /// Digest of the differences from the commit. Absent without differences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// True if files differ from the commit or are not tracked. Absent if Git failed or timed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
}

/// Maximum number of digits of a commit in [`GitState::short`].
const COMMIT: usize = 10;

impl GitState {
    /// The first digits of the commit, and the state of the files: `0123456789 (uncommitted changes)`.
    pub fn short(&self) -> String {
        let commit = clean(self.commit.get(..COMMIT).unwrap_or(&self.commit));
        match self.dirty {
            Some(false) => commit.into_owned(),
            Some(true) => format!("{commit} (uncommitted changes)"),
            None => format!("{commit} (changes unknown)"),
        }
    }
}

/// Program that a `command` job starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interpreter {
    /// The interpreter's path, with symbolic links resolved.
    pub path: String,
    /// Version of Python.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// BLAKE3 digest of the list of packages that Python has installed; the list is in the run's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<String>,
}

impl Conditions {
    /// The known conditions as names and values for people. Values may contain control characters.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let Self { machine, exclusive, run, .. } = self;
        let cores = |cores: Option<f64>| cores.map(|cores| format!("{cores:.2}"));
        let system = [machine.os.as_deref(), machine.kernel.as_deref()];
        let system: Vec<&str> = system.into_iter().flatten().collect();
        let git = run.git.as_ref().map(|git| match git.dirty {
            Some(true) => format!("{} with uncommitted changes", git.commit),
            Some(false) => git.commit.clone(),
            None => format!("{}, changes unknown", git.commit),
        });
        let exclusive_use = match (exclusive.asked, exclusive.held) {
            (_, true) => "held",
            (true, false) => "requested, but not held",
            (false, false) => "no",
        };
        let python = self.interpreter.as_ref().and_then(|interpreter| interpreter.python.clone());
        let facts = [
            ("processor", machine.cpu.clone()),
            ("system", (!system.is_empty()).then(|| system.join(" "))),
            ("exclusive use", Some(exclusive_use.to_owned())),
            ("cores that the job used", cores(self.own)),
            ("cores that others used", cores(self.foreign)),
            ("attempts", Some(self.attempts.to_string())),
            ("GPU", self.gpu.map(|gpu| gpu.describe())),
            ("run", run.name.clone()),
            ("user", run.user.clone()),
            ("commit", git),
            ("Python", python),
        ];
        facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
