//! The request to Slurm for a job: the arguments of `sbatch`, and the script.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    plan::Job,
    recipe::{Policy, SlurmRequest},
};

/// What Slurm's limit has on top of the job's own, which the worker's engine enforces to the second. Slurm looks once in a
/// minute or less, and only knows whole minutes.
const MARGIN: Duration = Duration::from_mins(2);

/// Where a job's process is started, and with what.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The program.
    pub(super) program: PathBuf,
    /// The folder in which the sweep was started: relative paths start there.
    pub(super) folder: PathBuf,
    /// The results folder.
    pub(super) results: PathBuf,
    /// The run's folder.
    pub(super) run: PathBuf,
}

impl Place {
    /// The script that runs this program with these arguments. Nothing in it is anybody's text but for paths.
    pub(super) fn script(&self, arguments: &str) -> String {
        let [program, folder, results] = [&self.program, &self.folder, &self.results].map(|path| quoted(path));
        // Slurm would go to /tmp where the folder is missing, and nobody would notice.
        format!("#!/bin/sh\ncd {folder} || exit 78\nexec {program} --results {results} {arguments}\n")
    }

    /// The arguments that every submission has.
    pub(super) fn arguments(&self, comment: &str, output: &str) -> Vec<String> {
        // In a file's name Slurm takes `%` for a pattern.
        let output = self.run.join("slurm").join(output).display().to_string().replace('%', "%%");
        let mut arguments = vec!["--comment".to_owned(), comment.to_owned()];
        arguments.extend(["--output".to_owned(), output]);
        arguments.extend(["--chdir".to_owned(), self.folder.display().to_string()]);
        // A node that dies takes its jobs with it, not the run: they are safe to start again.
        arguments.extend(["--open-mode=append", "--requeue", "--ntasks=1", "--nodes=1"].map(str::to_owned));
        arguments
    }
}

/// What a job takes, as `sbatch` is told.
pub(super) fn resources(job: &Job, request: &SlurmRequest) -> Vec<String> {
    let wanted = &job.resources;
    let mut arguments = vec![format!("--cpus-per-task={}", wanted.cpus.unwrap_or(1))];
    if let Some(memory) = wanted.memory {
        arguments.push(format!("--mem={}M", memory.div_ceil(1 << 20).max(1)));
    }
    match (&request.gres, crate::run::gpus(job)) {
        (Some(gres), _) => arguments.push(format!("--gres={gres}")),
        (None, 0) => {}
        (None, gpus) => arguments.push(format!("--gres=gpu:{gpus}")),
    }
    if wanted.exclusive {
        arguments.push("--exclusive".to_owned());
    }
    if let Some(time) = request.time.or_else(|| backstop(&job.policy)) {
        arguments.push(format!("--time={}", time.as_secs().div_ceil(60).max(1)));
    }
    arguments.extend(whose(request));
    arguments
}

/// Where it runs, and on whose account.
pub(super) fn whose(request: &SlurmRequest) -> Vec<String> {
    let given = [("partition", &request.partition), ("account", &request.account), ("qos", &request.qos)];
    let given = given.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
    given.chain(request.options.iter().cloned()).collect()
}

/// How long Slurm lets a job go on that has a time limit of its own: all attempts, the waits between them, and a margin.
fn backstop(policy: &Policy) -> Option<Duration> {
    let attempts = policy.retries + 1;
    let waits: Duration = (1..attempts).map(crate::run::engine::wait_before).sum();
    Some(policy.timeout?.saturating_mul(attempts) + waits + MARGIN)
}

/// A path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_waits_longer_than_all_attempts_take() {
        let policy = Policy { retries: 2, timeout: Some(Duration::from_mins(10)), ..Policy::default() };
        assert_eq!(backstop(&policy), Some(Duration::from_secs(3 * 600 + 1 + 2 + 120)));
        assert_eq!(backstop(&Policy::default()), None, "then the cluster's own limit holds");
    }

    #[test]
    fn paths_cannot_leave_their_quotes() {
        assert_eq!(quoted(Path::new("/a b/it's; rm")), r"'/a b/it'\''s; rm'");
    }
}
