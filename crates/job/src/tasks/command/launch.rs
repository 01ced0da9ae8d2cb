//! `launch`: a program as several processes that work together.

use super::Command;
use crate::{Conflict, Value, Values, params::choice};

choice! {
    /// Kind of start of several processes.
    pub enum Launch {
        /// Every process sees all GPUs of the job and uses the GPU with the index `LOCAL_RANK`, as with `torchrun`.
        Torchrun = "torchrun",
        /// Every process sees its own GPU only.
        Processes = "processes",
        /// Slurm's `srun` starts the processes, which see all GPUs of their node.
        Srun = "srun",
        /// The `mpirun` of an MPI starts the processes, which see all GPUs of their node.
        Mpirun = "mpirun",
        /// One process, which is forked from a Python interpreter that has run the first imports of the script.
        Fork = "fork",
    }
}

/// Options of Python that take the next argument as their value.
const WITH_VALUE: [&str; 3] = ["-W", "-X", "--check-hash-based-pycs"];

/// Sets the number of processes of a launched program that has one process for each GPU of each node.
pub fn complete_ranks(values: &mut Values, gpus: Option<usize>, nodes: usize) {
    let is_given = |name: &str| values.get(name).is_some_and(|value| !matches!(value, Value::Null));
    let gpus = gpus.filter(|gpus| *gpus > 0).and_then(|gpus| i64::try_from(gpus.saturating_mul(nodes)).ok());
    let has_ranks = is_given("launch") && !is_fork(values);
    if let Some(gpus) = gpus.filter(|_| has_ranks && !is_given("ranks")) {
        values.insert("ranks", Value::Int(gpus));
    }
}

/// The kind of start of a launched program, and its number of processes; `None` for a program of a single process.
pub fn launched(values: &Values) -> Option<(Launch, usize)> {
    let word = values.get("launch")?.as_text()?;
    let launch = Launch::ALL.iter().copied().find(|launch| launch.word() == word)?;
    let Some(Value::Int(ranks)) = values.get("ranks") else { return None };
    Some((launch, usize::try_from(*ranks).ok()?))
}

/// True for a program whose processes are forked from an interpreter.
pub fn is_fork(values: &Values) -> bool {
    values.given("launch").and_then(Value::as_text) == Some(Launch::Fork.word())
}

/// The position of the script among the arguments of a Python interpreter, or of `-m`, which a module follows; `None` for any other
/// program.
pub fn script_position(argv: &[String]) -> Option<usize> {
    let (program, arguments) = argv.split_first()?;
    let version = program.rsplit('/').next()?.strip_prefix("python")?;
    if !version.chars().all(|character| character.is_ascii_digit() || character == '.') {
        return None;
    }
    let mut position = 1;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if WITH_VALUE.contains(&argument.as_str()) {
            rest.next();
            position += 1;
        } else if argument == "-m" {
            return rest.next().map(|_| position);
        } else if !argument.starts_with('-') {
            return Some(position);
        } else if argument == "-" || argument == "-i" || argument.starts_with("-c") {
            return None;
        }
        position += 1;
    }
    None
}

impl Command {
    /// Number of processes as which the program is started.
    pub fn processes(&self) -> usize {
        self.launch.and(self.ranks).and_then(|ranks| usize::try_from(ranks).ok()).unwrap_or(1)
    }

    pub(super) fn check_launch(&self, conflicts: &mut Vec<Conflict>) {
        let (params, message, advice) = match (self.launch, self.ranks) {
            (Some(Launch::Fork), Some(_)) => {
                (vec!["ranks", "launch"], "`launch: fork` starts one process", "remove `ranks`")
            }
            (Some(Launch::Fork), None) if self.run.is_some() || script_position(&self.arguments()).is_none() => (
                vec!["launch", "argv"],
                "`launch: fork` needs a script of Python",
                "write `argv: [python3, train.py, …]` or `argv: [python3, -m, MODULE, …]`",
            ),
            (Some(Launch::Fork), None) if self.project.is_none() => (
                vec!["launch"],
                "`launch: fork` runs a script in its project",
                "add `project: .`, and remove `inputs`: the files that the script reads are observed",
            ),
            (Some(Launch::Fork), None) => return,
            (Some(_), None) => (
                vec!["launch"],
                "`launch` needs a number of processes",
                "write `ranks: N`, or `resources: { gpus: N }` for one process on each GPU",
            ),
            (None, Some(_)) => (vec!["ranks"], "`ranks` has no effect without `launch`", "add `launch: torchrun`"),
            _ => return,
        };
        conflicts.push(Conflict { params, message: message.into(), advice: advice.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_python_are_found_among_its_arguments() {
        let position = |line: &str| script_position(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (line, expected) in [
            ("python3 train.py --lr 1", Some(1)),
            ("/venv/bin/python3.11 -u -X dev -W error train.py", Some(6)),
            ("python -OO -m package.train --lr 1", Some(2)),
            ("python3 -Xdev train.py", Some(2)),
            ("python3 -c pass", None),
            ("python3 -m", None),
            ("python3 -", None),
            ("python3", None),
            ("python3-config train.py", None),
            ("./train.py --lr 1", None),
            ("torchrun train.py", None),
        ] {
            assert_eq!(position(line), expected, "{line}");
        }
    }
}
