//! The tasks: what a recipe's `uses` may name.

use std::collections::BTreeMap;

use crate::{
    Param, Unit, Value, current_name,
    tasks::{
        BatchSize, BenchMaskUpdate, BenchMasking, BenchThreshold, Check, Command, Eval, Generate, GradProbe, K1, Mock,
        Pair, Parity, Train,
        pairs::{self, Declared},
    },
};

/// Parameters by name.
pub type Values = BTreeMap<String, Value>;

/// A task with its parameters, typed and complete.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// Trains a network.
    Train(Train),
    /// Measures a network's loss on held-out text.
    Eval(Eval),
    /// Prunes a trained network by candidates and gradients.
    GradProbe(GradProbe),
    /// Writes text.
    Generate(Generate),
    /// Checks that a network is what it claims to be.
    Check(Check),
    /// Trains a tree of blocks, of which a part is updated in each step.
    K1(K1),
    /// Compares a backend with plain operations on the CPU.
    Parity(Parity),
    /// Raises the batch until memory or throughput stops it.
    BatchSize(BatchSize),
    /// Measures how a threshold is found.
    BenchThreshold(BenchThreshold),
    /// Measures how masks are made.
    BenchMaskUpdate(BenchMaskUpdate),
    /// Measures how masks are applied.
    BenchMasking(BenchMasking),
    /// Measures one of several ways to do the same.
    Pair(Pair),
    /// Runs any program.
    Command(Command),
    /// Does what it is told, without a network: for tests of the engine.
    Mock(Mock),
}

/// A task's declaration.
#[derive(Debug, Clone, Copy)]
pub struct TaskInfo {
    /// What `uses` says.
    pub name: &'static str,
    /// Raised whenever the task computes something else from the same parameters, or a default changes.
    pub revision: u32,
    /// What it does.
    pub about: &'static str,
    /// Its parameters, in groups.
    pub groups: &'static [&'static [Param]],
    /// What it measures.
    pub metrics: &'static [MetricInfo],
    /// The curves that it may record.
    pub curves: &'static [&'static str],
    /// Whether it may measure more than it declares, because something else decides what.
    pub open_metrics: bool,
    /// The metrics that a line of progress has room for.
    pub headline: &'static [&'static str],
    /// Whether it computes on a backend.
    pub on_device: bool,
    /// Whether lists of tasks leave it out.
    pub hidden: bool,
    build: fn(&Values) -> Option<Task>,
    artifacts: fn(&Values) -> Vec<String>,
    conflicts: fn(&Values) -> Vec<Conflict>,
}

/// A metric's declaration.
#[derive(Debug, Clone, Copy)]
pub struct MetricInfo {
    /// Its name in records and tables.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What it means and how it is measured.
    pub doc: &'static str,
}

/// Parameters that are each in order, but not together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The parameters concerned, the one to change first.
    pub params: Vec<&'static str>,
    /// What is wrong, as a phrase.
    pub message: String,
    /// What to do.
    pub advice: String,
}

impl Task {
    /// Every task, the ones that users look for first.
    pub const ALL: &'static [TaskInfo] = &[
        TaskInfo {
            name: "train",
            revision: 4,
            about: "trains a GPT-2 on tokens, optionally pruning it, and measures loss, speed and memory",
            groups: Train::GROUPS,
            metrics: Train::METRICS,
            curves: Train::CURVES,
            open_metrics: false,
            headline: &["loss", "sparsity", "throughput.tokens_per_s"],
            on_device: true,
            hidden: false,
            build: |values| Train::from_values(values).map(Task::Train),
            artifacts: Train::artifacts,
            conflicts: Train::conflicts,
        },
        TaskInfo {
            name: "eval",
            revision: 1,
            about: "measures a network's loss on held-out tokens",
            groups: Eval::GROUPS,
            metrics: Eval::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["loss", "perplexity"],
            on_device: true,
            hidden: false,
            build: |values| Eval::from_values(values).map(Task::Eval),
            artifacts: |_| Vec::new(),
            conflicts: Eval::conflicts,
        },
        TaskInfo {
            name: "gradprobe",
            revision: 1,
            about: "prunes a trained network: shrinks the weights with the smallest scores, and removes those at which the loss does not pull harder then",
            groups: GradProbe::GROUPS,
            metrics: GradProbe::METRICS,
            curves: GradProbe::CURVES,
            open_metrics: false,
            headline: &["sparsity", "perplexity", "accuracy"],
            on_device: true,
            hidden: false,
            build: |values| GradProbe::from_values(values).map(Task::GradProbe),
            artifacts: GradProbe::artifacts,
            conflicts: GradProbe::conflicts,
        },
        TaskInfo {
            name: "generate",
            revision: 1,
            about: "writes text with a network, token by token",
            groups: Generate::GROUPS,
            metrics: Generate::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["throughput.tokens_per_s", "time.token"],
            on_device: true,
            hidden: false,
            build: |values| Generate::from_values(values).map(Task::Generate),
            artifacts: |_| vec![Generate::TEXT.to_owned()],
            conflicts: Generate::conflicts,
        },
        TaskInfo {
            name: "check",
            revision: 2,
            about: "builds a network and asserts that it computes, learns, and does not see the future",
            groups: Check::GROUPS,
            metrics: Check::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["assertions", "parameters"],
            on_device: true,
            hidden: false,
            build: |values| Check::from_values(values).map(Task::Check),
            artifacts: |_| Vec::new(),
            conflicts: Check::conflicts,
        },
        TaskInfo {
            name: "parity",
            revision: 2,
            about: "asserts that a backend computes what plain operations on the CPU compute, and names what differs first",
            groups: Parity::GROUPS,
            metrics: Parity::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["error.logits", "error.gradients", "error.loss"],
            on_device: true,
            hidden: false,
            build: |values| Parity::from_values(values).map(Task::Parity),
            artifacts: |_| Vec::new(),
            conflicts: Parity::conflicts,
        },
        TaskInfo {
            name: "k1",
            revision: 1,
            about: "trains a tree of transformer blocks, of which a part is updated in each step, and measures what that costs",
            groups: K1::GROUPS,
            metrics: K1::METRICS,
            curves: K1::CURVES,
            open_metrics: false,
            headline: &["loss", "throughput.sequences_per_s"],
            on_device: true,
            hidden: false,
            build: |values| K1::from_values(values).map(Task::K1),
            artifacts: |_| Vec::new(),
            conflicts: K1::conflicts,
        },
        TaskInfo {
            name: "bench/batch-size",
            revision: 1,
            about: "raises the batch until memory or throughput stops it, and finds the size from which on it brings nothing",
            groups: BatchSize::GROUPS,
            metrics: BatchSize::METRICS,
            curves: BatchSize::CURVES,
            open_metrics: false,
            headline: &["batch.knee", "throughput.tokens_per_s", "memory.peak"],
            on_device: true,
            hidden: false,
            build: |values| BatchSize::from_values(values).map(Task::BatchSize),
            artifacts: |_| Vec::new(),
            conflicts: BatchSize::conflicts,
        },
        TaskInfo {
            name: "bench/threshold",
            revision: 2,
            about: "measures ways to find the k-th smallest of given scores",
            groups: BenchThreshold::GROUPS,
            metrics: BenchThreshold::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["time.threshold", "error.threshold"],
            on_device: true,
            hidden: false,
            build: |values| BenchThreshold::from_values(values).map(Task::BenchThreshold),
            artifacts: |_| Vec::new(),
            conflicts: BenchThreshold::conflicts,
        },
        TaskInfo {
            name: "bench/mask-update",
            revision: 2,
            about: "measures ways to make masks from weights and moments",
            groups: BenchMaskUpdate::GROUPS,
            metrics: BenchMaskUpdate::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["time.update", "memory.extra"],
            on_device: true,
            hidden: false,
            build: |values| BenchMaskUpdate::from_values(values).map(Task::BenchMaskUpdate),
            artifacts: |_| Vec::new(),
            conflicts: BenchMaskUpdate::conflicts,
        },
        TaskInfo {
            name: "bench/masking",
            revision: 1,
            about: "measures masking in every step, and choosing masks in some",
            groups: BenchMasking::GROUPS,
            metrics: BenchMasking::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["time.masking", "time.update"],
            on_device: true,
            hidden: false,
            build: |values| BenchMasking::from_values(values).map(Task::BenchMasking),
            artifacts: |_| Vec::new(),
            conflicts: BenchMasking::conflicts,
        },
        pair::<pairs::Dataloader>(),
        pair::<pairs::Bandwidth>(),
        pair::<pairs::NumberFormat>(),
        pair::<pairs::Checkpoints>(),
        pair::<pairs::Intensity>(),
        pair::<pairs::Activations>(),
        pair::<pairs::Leak>(),
        pair::<pairs::Attention>(),
        pair::<pairs::KvCache>(),
        pair::<pairs::Matmul>(),
        pair::<pairs::Allocator>(),
        pair::<pairs::Accumulation>(),
        pair::<pairs::Sharding>(),
        pair::<pairs::Autograd>(),
        pair::<pairs::Regional>(),
        TaskInfo {
            name: "command",
            revision: 1,
            about: "runs any program, and keeps the numbers and files that it leaves",
            groups: Command::GROUPS,
            metrics: Command::METRICS,
            curves: &[],
            open_metrics: true,
            headline: &[],
            on_device: false,
            hidden: false,
            build: |values| Command::from_values(values).map(Task::Command),
            artifacts: Command::artifacts,
            conflicts: Command::conflicts,
        },
        TaskInfo {
            name: "mock",
            revision: 1,
            about: "sleeps, reports a metric, fails, panics or hangs as told: for testing recipes and the engine",
            groups: Mock::GROUPS,
            metrics: Mock::METRICS,
            curves: &[],
            open_metrics: false,
            headline: &["value"],
            on_device: false,
            hidden: true,
            build: |values| Mock::from_values(values).map(Task::Mock),
            artifacts: Mock::artifacts,
            conflicts: |_| Vec::new(),
        },
    ];

    /// The declaration of the task with this name.
    pub fn info(name: &str) -> Option<&'static TaskInfo> {
        Self::ALL.iter().find(|info| info.name == name)
    }
}

/// The declaration of a pair.
const fn pair<P: Declared>() -> TaskInfo {
    TaskInfo {
        name: P::NAME,
        revision: 1,
        about: P::ABOUT,
        groups: P::GROUPS,
        metrics: P::METRICS,
        curves: &[],
        open_metrics: false,
        headline: &["time.call", "memory.call"],
        on_device: true,
        hidden: false,
        build: P::task,
        artifacts: |values| {
            let traced = values.get("trace") == Some(&Value::Bool(true));
            if traced { vec![Pair::TRACE.to_owned()] } else { Vec::new() }
        },
        conflicts: |values| P::from_values(values).map(|pair| pair.conflicts()).unwrap_or_default(),
    }
}

impl TaskInfo {
    /// Every parameter.
    pub fn params(&self) -> impl Iterator<Item = &'static Param> + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The parameter with this name.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params().find(|param| param.name == name)
    }

    /// The declared metric with this name.
    pub fn metric(&self, name: &str) -> Option<&'static MetricInfo> {
        let find = |name: &str| self.metrics.iter().find(|metric| metric.name == name);
        find(name).or_else(|| find(current_name(name)))
    }

    /// The typed task, if every parameter is there and has passed [`Param::check`].
    pub fn build(&self, values: &Values) -> Option<Task> {
        (self.build)(values)
    }

    /// The files and folders that a job with these parameters leaves.
    pub fn artifacts(&self, values: &Values) -> Vec<String> {
        (self.artifacts)(values)
    }

    /// What is wrong with the parameters taken together.
    pub fn conflicts(&self, values: &Values) -> Vec<Conflict> {
        (self.conflicts)(values)
    }

    /// `given`, completed with the defaults.
    pub fn complete(&self, mut given: Values) -> Values {
        for param in self.params() {
            given.entry(param.name.to_owned()).or_insert_with(param.default);
        }
        given
    }

    /// The parameters that belong to the key: those that differ from their default and are not cosmetic. A parameter
    /// added later therefore leaves earlier keys as they were.
    pub fn identity(&self, values: &Values) -> Values {
        self.params()
            .filter(|param| !param.cosmetic)
            .filter_map(|param| {
                let value = values.get(param.name)?;
                (*value != (param.default)()).then(|| (param.name.to_owned(), value.clone()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn declarations_are_sound() {
        for info in Task::ALL {
            let mut names = BTreeSet::new();
            for param in info.params() {
                assert!(names.insert(param.name), "{}: `{}` is declared twice", info.name, param.name);
                assert!(!param.doc.is_empty(), "{}: `{}` is not documented", info.name, param.name);
                let default = (param.default)();
                assert_eq!(param.check(&default), Ok(default), "{}: default of `{}`", info.name, param.name);
            }
            for name in info.headline {
                assert!(info.metric(name).is_some(), "{}: headline `{name}` is not measured", info.name);
            }
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
        let values = info.complete(Values::from([("iters".into(), Value::Int(7))]));
        assert_eq!(info.identity(&values), Values::from([("iters".into(), Value::Int(7))]));
    }
}
