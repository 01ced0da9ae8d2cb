//! `uses: imported`.

use std::collections::BTreeMap;

use crate::{Group, MetricInfo, Outcome, Param, TaskSpec, Value, Values, params::params};

params! {
    /// Represents a run of another program, whose record `sweep import` wrote.
    pub struct Imported {
        /// The kind of the store: `mlflow`.
        from: Option<String> = None;
        /// The run: its identifier in the store, `@`, and the first digits of the digest of its contents.
        run: Option<String> = None;
        /// The parameters of the run. Values of maps have their paths as names: `optimizer.lr`.
        params: BTreeMap<String, Value> = BTreeMap::new();
    }
}

impl Imported {
    /// The name of the fact with the source of a record.
    pub const SOURCE: &str = "imported";

    /// The axis with the names of runs.
    pub const RUN: &str = "run";

    /// The name of the fact with the end of a run that had not finished when it was imported.
    pub const END: &str = "end";
    /// The end of a run that had not ended.
    pub const RUNNING: &str = "running";

    /// The name of the fact with the number of seeds that a run's configuration had when the run was imported.
    pub const SEEDS: &str = "seeds";

    /// The source of an outcome of this task, in words; `None` for outcomes of other tasks.
    pub fn source<'o>(outcome: &'o Outcome, task: &str) -> Option<&'o str> {
        (task == Self::NAME).then(|| outcome.facts.get(Self::SOURCE).map_or("an unknown source", String::as_str))
    }
}

impl TaskSpec for Imported {
    const NAME: &'static str = "imported";
    const ABOUT: &'static str = "stands for runs of other programs, whose records `sweep import` writes";
    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];
    const METRICS: &'static [&'static [MetricInfo]] = &[];
    const OPEN_METRICS: bool = true;
    const ON_DEVICE: bool = false;

    fn build(values: &Values) -> Option<Self> {
        <Self as Group>::from_values(values)
    }
}
