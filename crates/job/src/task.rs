//! The tasks, which a recipe's `uses` names.

mod added;

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

pub use added::{AddedTask, TasksError};

use crate::{Backend, Failure, Job, MetricInfo, Name, Outcome, Param, Report, Value, Values, current_name, tasks};

/// The list of tasks as a type, and as declarations.
macro_rules! declare {
    ($($place:ident $task:ident;)+) => {
        /// A task with its parameters, typed and complete.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each has the name of its parameters, which say what it does")]
        pub enum Task {
            $($task(tasks::$task),)+
        }

        $(impl From<tasks::$task> for Task {
            fn from(task: tasks::$task) -> Self {
                Self::$task(task)
            }
        })+

        const LISTS: &[&[TaskInfo]] = &[$(<tasks::$task as Named>::NAMES),+];
    };
}

crate::for_each_task!(declare);

/// A task's declaration.
#[derive(Debug, Clone, Copy)]
pub struct TaskInfo {
    /// Name in a step's `uses`.
    pub name: &'static str,
    /// Raised whenever the task computes something else from the same parameters, or a default changes.
    pub revision: u32,
    /// One-line description: a verb phrase without a full stop.
    pub about: &'static str,
    /// Its parameters, in groups.
    pub groups: &'static [&'static [Param]],
    /// Its metrics, in groups.
    pub metrics: &'static [&'static [MetricInfo]],
    /// The curves that it may record.
    pub curves: &'static [&'static str],
    /// If true, it may measure more than it declares.
    pub open_metrics: bool,
    /// The metrics that a line of progress has room for.
    pub headline: &'static [&'static str],
    /// If true, it computes on a backend.
    pub on_device: bool,
    /// If true, lists of tasks leave it out.
    pub hidden: bool,
    build: fn(&Values) -> Option<Task>,
    artifacts: fn(&Values) -> Vec<String>,
    raised: fn(&Values) -> u32,
    conflicts: fn(&Values) -> Vec<Conflict>,
    redundant: fn(&Values) -> Vec<&'static str>,
    reach: fn(&Values) -> Option<Reach>,
    acts_from: fn(&Values) -> BTreeMap<String, u64>,
    prefix: fn(&Values, u64) -> Option<Values>,
    run: Option<RunAdded>,
}

/// Runs a job of an added task.
type RunAdded = fn(&Job, &mut dyn Report) -> Result<Outcome, Failure>;

/// The end of a job, in steps of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The number of steps, if it is known.
    pub end: Option<u64>,
    /// True if the job leaves the state at its end, so that a longer one can continue from it.
    pub leaves_state: bool,
    /// True if the job can begin with the state at its own end, which it only evaluates.
    pub may_only_evaluate: bool,
}

/// The step from which a parameter acts that no state depends on.
pub const NEVER: u64 = u64::MAX;

/// Parameters that are valid one by one, but not together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The parameters concerned, the one to change first.
    pub params: Vec<&'static str>,
    /// The problem, as a phrase.
    pub message: String,
    /// The remedy, as a phrase.
    pub advice: String,
}

/// A task's declaration, beside its parameters. `crates/job/src/tasks/mod.rs` has the list of all.
pub trait TaskSpec: Sized {
    /// Name in a step's `uses`.
    const NAME: &'static str;
    /// Raised whenever the task computes something else from the same parameters, or a default changes.
    const REVISION: u32 = 1;
    /// One-line description: a verb phrase without a full stop.
    const ABOUT: &'static str;
    /// Its parameters, in groups.
    const GROUPS: &'static [&'static [Param]];
    /// Its metrics, in groups.
    const METRICS: &'static [&'static [MetricInfo]];
    /// The curves that it may record.
    const CURVES: &'static [&'static str] = &[];
    /// If true, it may measure more than it declares.
    const OPEN_METRICS: bool = false;
    /// The metrics that a line of progress has room for.
    const HEADLINE: &'static [&'static str] = &[];
    /// If true, it computes on a backend.
    const ON_DEVICE: bool = true;
    /// If true, lists of tasks leave it out.
    const HIDDEN: bool = false;

    /// Returns the task, if every parameter is present and has passed [`Param::check`].
    fn build(values: &Values) -> Option<Self>;

    /// The files and folders that a job with these parameters leaves.
    fn artifacts(_values: &Values) -> Vec<String> {
        Vec::new()
    }

    /// Conflicts between the parameters.
    fn conflicts(_values: &Values) -> Vec<Conflict> {
        Vec::new()
    }

    /// The end of a job with these parameters; `None` if jobs of this task cannot continue from the states of others.
    fn reach(_values: &Values) -> Option<Reach> {
        None
    }

    /// For the parameters that do not act from the first step on: the first step, from 0, on which the state of the job
    /// depends on them, or [`NEVER`]. An entry of a map has the name `map.entry`.
    fn acts_from(_values: &Values) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Returns the parameters of a job whose only purpose is to produce the state of this job after `step` steps; `None` if no
    /// such job exists.
    fn prefix(_values: &Values, _step: u64) -> Option<Values> {
        None
    }

    /// The number of later revisions in which the computation changed for parameters as these only.
    fn raised(_values: &Values) -> u32 {
        0
    }

    /// The parameters whose values mean the same as their defaults beside these others, and are therefore not in the key.
    fn redundant(_values: &Values) -> Vec<&'static str> {
        Vec::new()
    }
}

/// The names under which recipes use a task: one for most.
pub(crate) trait Named {
    const NAMES: &'static [TaskInfo];
}

impl<T: TaskSpec> Named for T
where
    Task: From<T>,
{
    const NAMES: &'static [TaskInfo] = &[TaskInfo::new::<T>(|values| T::build(values).map(Task::from))];
}

impl Task {
    /// The tasks of this crate, in the order in which documentation lists them.
    pub const BUILT_IN: &'static [TaskInfo] = &joined::<{ count(LISTS) }>(LISTS);

    /// Every task: the tasks of this crate, and the tasks that the program [adds](Self::add).
    pub fn all() -> &'static [TaskInfo] {
        added::all()
    }

    /// Adds tasks to the tasks of this crate, for the whole process. It is called once, before any other function of this crate.
    pub fn add(tasks: &[TaskInfo]) -> Result<(), TasksError> {
        added::add(tasks)
    }

    /// The declaration of the task with this name.
    pub fn info(name: &str) -> Option<&'static TaskInfo> {
        Self::all().iter().find(|info| info.name == name)
    }
}

const fn count(lists: &[&[TaskInfo]]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < lists.len() {
        count += lists[at].len();
        at += 1;
    }
    count
}

const fn joined<const N: usize>(lists: &[&[TaskInfo]]) -> [TaskInfo; N] {
    let mut all = [lists[0][0]; N];
    let (mut list, mut first) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[first + at] = lists[list][at];
            at += 1;
        }
        first += at;
        list += 1;
    }
    all
}

impl TaskInfo {
    /// The declaration `T`, of a task that `build` makes.
    pub(crate) const fn new<T: TaskSpec>(build: fn(&Values) -> Option<Task>) -> Self {
        Self {
            name: T::NAME,
            revision: T::REVISION,
            about: T::ABOUT,
            groups: T::GROUPS,
            metrics: T::METRICS,
            curves: T::CURVES,
            open_metrics: T::OPEN_METRICS,
            headline: T::HEADLINE,
            on_device: T::ON_DEVICE,
            hidden: T::HIDDEN,
            build,
            artifacts: T::artifacts,
            conflicts: T::conflicts,
            redundant: T::redundant,
            raised: T::raised,
            reach: T::reach,
            acts_from: T::acts_from,
            prefix: T::prefix,
            run: None,
        }
    }

    /// The declaration of a task that the program adds.
    pub const fn added<T: AddedTask>() -> Self {
        Self { run: Some(added::run::<T>), ..Self::new::<T>(|_| None) }
    }

    /// Returns true for a task that the program adds. Its computation is known to this program only.
    pub fn is_added(&self) -> bool {
        self.run.is_some()
    }

    /// Runs a job of an added task; `None` for tasks of this crate.
    pub fn run(&self, job: &Job, report: &mut dyn Report) -> Option<Result<Outcome, Failure>> {
        self.run.map(|run| run(job, report))
    }

    /// Every parameter.
    pub fn params(&self) -> impl Iterator<Item = &'static Param> + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The parameter with this name.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params().find(|param| param.name == name)
    }

    /// Every declared metric.
    pub fn metrics(&self) -> impl Iterator<Item = &'static MetricInfo> + use<> {
        self.metrics.iter().flat_map(|group| group.iter())
    }

    /// The declared metric with this name.
    pub fn metric(&self, name: &str) -> Option<&'static MetricInfo> {
        let find = |name: &str| self.metrics().find(|metric| metric.name == name);
        find(name).or_else(|| find(current_name(name)))
    }

    /// The revision of a job: a later one where the computation changed for some parameters only.
    ///
    /// Since the revision that follows the task's, mixed precision has its own kernels on the CPU, and norms, softmax and
    /// activations of networks in half precision are computed in single precision.
    pub fn revision_of(&self, values: &Values, backend: Option<Backend>) -> u32 {
        let has_later = match values.get("precision").and_then(Value::as_text) {
            Some("f16" | "bf16") => true,
            Some("mixed" | "mixed_bf16") => backend == Some(Backend::Cpu),
            _ => false,
        };
        self.revision + (self.raised)(values) + u32::from(has_later && self.param("precision").is_some())
    }

    /// Returns the typed task, if every parameter is present and has passed [`Param::check`]; `None` for an added task.
    pub fn build(&self, values: &Values) -> Option<Task> {
        (self.build)(values)
    }

    /// The files and folders that a job with these parameters leaves.
    pub fn artifacts(&self, values: &Values) -> Vec<String> {
        (self.artifacts)(values)
    }

    /// Conflicts between the parameters.
    pub fn conflicts(&self, values: &Values) -> Vec<Conflict> {
        (self.conflicts)(values)
    }

    /// The end of a job with these parameters; `None` if jobs of this task cannot continue from the states of others.
    pub fn reach(&self, values: &Values) -> Option<Reach> {
        (self.reach)(values)
    }

    /// For the parameters that do not act from the first step on: the first step, from 0, on which the state of the job
    /// depends on them, or [`NEVER`]. An entry of a map has the name `map.entry`.
    pub fn acts_from(&self, values: &Values) -> BTreeMap<String, u64> {
        (self.acts_from)(values)
    }

    /// Returns the parameters of a job whose only purpose is to produce the state of this job after `step` steps; `None` if no
    /// such job exists.
    pub fn prefix(&self, values: &Values, step: u64) -> Option<Values> {
        (self.prefix)(values, step)
    }

    /// `given`, completed with the defaults.
    pub fn complete(&self, given: Values) -> Values {
        static DEFAULTS: LazyLock<HashMap<&str, Values>> = LazyLock::new(|| {
            let defaults = |info: &TaskInfo| info.params().map(|param| (param.name, (param.default)())).collect();
            Task::all().iter().map(|info| (info.name, defaults(info))).collect()
        });
        match DEFAULTS.get(self.name) {
            Some(defaults) => given.or(defaults),
            None => given,
        }
    }

    /// The parameters that belong to the key: parameters that differ from their defaults and are not cosmetic. A parameter that is added
    /// later therefore does not change earlier keys.
    pub fn identity(&self, values: &Values) -> Values {
        let redundant = (self.redundant)(values);
        self.params()
            .filter(|param| !param.cosmetic && !redundant.contains(&param.name))
            .filter_map(|param| {
                let value = values.given(param.name)?;
                (*value != (param.default)()).then(|| (Name::const_new(param.name), value.clone()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_sound() {
        for info in Task::BUILT_IN {
            assert_eq!(info.faults(), Vec::<String>::new(), "{}", info.name);
            let defaults = info.complete(Values::new());
            assert!(info.build(&defaults).is_some(), "{}: the defaults do not build", info.name);
            // A `command` without a program is nothing.
            let conflicts = usize::from(info.name == "command");
            assert_eq!(info.conflicts(&defaults).len(), conflicts, "{}: the defaults conflict", info.name);
            assert!(info.identity(&defaults).is_empty(), "{}: defaults are not in the key", info.name);
        }
    }

    #[test]
    fn a_value_that_differs_from_its_default_is_identity() {
        let info = Task::info("train").unwrap();
        let values = info.complete(Values::from([("iters", Value::Int(7))]));
        assert_eq!(info.identity(&values), Values::from([("iters", Value::Int(7))]));
    }

    #[test]
    fn a_training_until_its_end_is_the_whole_training() {
        let info = Task::info("train").unwrap();
        let identity = |given: &[(&str, i64)]| {
            let given = given.iter().map(|(name, value)| ((*name).to_owned(), Value::Int(*value)));
            info.identity(&info.complete(given.collect()))
        };
        assert_eq!(identity(&[("until", 200)]), Values::new(), "200 is the default");
        assert_eq!(identity(&[("iters", 60), ("until", 60)]), identity(&[("iters", 60)]));
        assert_eq!(identity(&[("until", 40)]), Values::from([("until", Value::Int(40))]));
        let beyond = info.complete(Values::from([("until", Value::Int(201))]));
        assert_eq!(info.conflicts(&beyond)[0].params, ["until", "iters"]);
    }
}
