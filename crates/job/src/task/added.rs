//! Tasks that the program adds to those of this crate.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{LazyLock, OnceLock},
};

use super::{Task, TaskInfo, TaskSpec};
use crate::{Failure, FailureKind, Job, Kind, Outcome, Report, Value};

/// A task that the program adds: its declaration, and its computation.
///
/// The engine treats it like the tasks of this crate: recipes are checked against its parameters, `sweep tasks` and the schema of
/// recipes list it, its jobs are worker processes. The digest of the program is part of the keys of its jobs, so that a changed
/// program computes them again.
pub trait AddedTask: TaskSpec {
    /// Runs `job` with these parameters, on the job's backend if the task is [on a device](TaskSpec::ON_DEVICE). Files that the job
    /// keeps are written to [`Job::dir`] and named in [`Outcome::artifacts`].
    fn run(&self, job: &Job, report: &mut dyn Report) -> Result<Outcome, Failure>;
}

/// Tasks that cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TasksError {
    /// The declaration of a task is wrong.
    Declaration {
        /// Name of the task.
        task: &'static str,
        /// The fault, as a phrase.
        fault: String,
    },
    /// The list of tasks has been read before.
    Late,
}

impl fmt::Display for TasksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declaration { task, fault } => write!(f, "the task `{task}` cannot be added: {fault}"),
            Self::Late => f.write_str("tasks can be added once, before the list of tasks is read"),
        }
    }
}

impl std::error::Error for TasksError {}

static ADDED: OnceLock<Vec<TaskInfo>> = OnceLock::new();

static ALL: LazyLock<Vec<TaskInfo>> = LazyLock::new(|| [Task::BUILT_IN, ADDED.get_or_init(Vec::new)].concat());

pub(super) fn all() -> &'static [TaskInfo] {
    &ALL
}

pub(super) fn add(tasks: &[TaskInfo]) -> Result<(), TasksError> {
    check(tasks)?;
    ADDED.set(tasks.to_vec()).map_err(|_| TasksError::Late)
}

fn check(tasks: &[TaskInfo]) -> Result<(), TasksError> {
    let mut names: BTreeSet<&str> = Task::BUILT_IN.iter().map(|info| info.name).collect();
    for info in tasks {
        let repeated = (!names.insert(info.name)).then(|| "another task has this name".to_owned());
        if let Some(fault) = repeated.or_else(|| info.faults().into_iter().next()) {
            return Err(TasksError::Declaration { task: info.name, fault });
        }
    }
    Ok(())
}

pub(super) fn run<T: AddedTask>(job: &Job, report: &mut dyn Report) -> Result<Outcome, Failure> {
    let Some(task) = T::build(&job.params) else {
        let message = format!("the parameters do not make a `{}`", T::NAME);
        return Err(Failure { kind: FailureKind::Crash, message });
    };
    task.run(job, report)
}

impl TaskInfo {
    /// The faults of the declaration, as phrases.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let is_allowed = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_-/".contains(char);
        if self.name.is_empty() || !self.name.chars().all(is_allowed) {
            faults.push("its name has characters other than a–z, 0–9, `_`, `-` and `/`".to_owned());
        }
        let mut names = BTreeSet::new();
        for param in self.params() {
            let name = param.name;
            if !names.insert(name) {
                faults.push(format!("the parameter `{name}` is declared twice"));
            }
            if param.doc.is_empty() {
                faults.push(format!("the parameter `{name}` is not documented"));
            }
            let default = (param.default)();
            if let (Kind::Path(built_in), Value::Text(path)) = (param.kind, &default)
                && !built_in.contains(&path.as_str())
            {
                faults.push(format!("the default of `{name}` is a file"));
            }
            match param.check(&default) {
                Ok(checked) if checked == default => {}
                Ok(checked) => faults.push(format!("the default of `{name}` is {default} instead of {checked}")),
                Err(error) => faults.push(format!("the default of `{name}`: {error}")),
            }
        }
        let mut names = BTreeSet::new();
        for metric in self.metrics() {
            if !names.insert(metric.name) {
                faults.push(format!("the metric `{}` is declared twice", metric.name));
            }
        }
        for name in self.headline {
            if self.metric(name).is_none() {
                faults.push(format!("the headline `{name}` is not a metric of the task"));
            }
        }
        faults
    }
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macros declare for other crates")]
mod tests {
    use super::*;
    use crate::{Group as _, MetricInfo, Param, Values, metrics, params::params};

    params! {
        /// Settings.
        pub struct Toy {
            /// Width.
            width: usize = 8, in 1..=64;
            /// Rate.
            rate: f64 = 2.0, in 0.0..=1.0;
        }
    }

    metrics! {
        impl Toy {
            /// Loss.
            LOSS: One = "loss";
        }
    }

    impl TaskSpec for Toy {
        const NAME: &'static str = "toy";
        const ABOUT: &'static str = "does nothing";
        const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];
        const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];
        const HEADLINE: &'static [&'static str] = &["accuracy"];

        fn build(values: &Values) -> Option<Self> {
            Self::from_values(values)
        }
    }

    impl AddedTask for Toy {
        fn run(&self, _: &Job, _: &mut dyn Report) -> Result<Outcome, Failure> {
            Ok(Outcome::default())
        }
    }

    fn fault(tasks: &[TaskInfo]) -> String {
        check(tasks).unwrap_err().to_string()
    }

    #[test]
    fn a_declaration_is_checked() {
        let toy = TaskInfo::added::<Toy>();
        assert!(toy.is_added());
        let faults = toy.faults();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("the default of `rate`: "), "{faults:?}");
        assert_eq!(faults[1], "the headline `accuracy` is not a metric of the task");
        assert!(fault(&[TaskInfo { name: "Toy", ..toy }]).contains("`Toy` cannot be added: its name has characters"));
    }

    #[test]
    fn two_tasks_have_two_names() {
        let sound = TaskInfo { headline: &[], groups: &[], ..TaskInfo::added::<Toy>() };
        assert_eq!(check(&[sound]), Ok(()));
        let expected = "the task `toy` cannot be added: another task has this name";
        assert_eq!(fault(&[sound, sound]), expected);
        assert!(fault(&[TaskInfo { name: "train", ..sound }]).contains("another task has this name"));
    }
}
