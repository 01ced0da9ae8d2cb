//! `uses: mock`.

use crate::{
    Group, MetricInfo, Param, TaskSpec, Unit, Values,
    params::{choice, params},
};

choice! {
    /// End of a mock job.
    pub enum MockEnd {
        /// With a result.
        Done = "done",
        /// With a failure.
        Fail = "fail",
        /// With a panic.
        Panic = "panic",
        /// Killed by a signal that cannot be caught.
        Kill = "kill",
        /// Never.
        Hang = "hang",
        /// With noise on standard output before the result.
        Noise = "noise",
        /// With exit code 0, but without a result.
        Silent = "silent",
        /// With a segmentation fault.
        Segfault = "segfault",
        /// Never, and deaf to being asked to end.
        Deaf = "deaf",
        /// Never, keeping a core busy.
        Spin = "spin",
        /// With a result, after much on the protocol's own channel that is no message.
        Garbage = "garbage",
        /// With what a driver says whose memory is used up.
        DeviceMemory = "device-memory",
        /// With more memory than there is.
        Devour = "devour",
    }
}

params! {
    /// Does what it is told, without a network.
    pub struct Mock {
        /// Duration.
        seconds: f64 = 0.0, in 0.0..=3600.0, unit "s";
        /// Number of progress reports.
        steps: usize = 1, in 1..=1_000_000;
        /// The metric `value`.
        value: f64 = 0.0;
        /// A parameter that only serves to tell points apart.
        variant: Option<usize> = None;
        /// Changes nothing.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// A file to read; its length is the metric `bytes`.
        input: Option<crate::Path> = None;
        /// A text to leave as the artifact `text`.
        text: Option<String> = None;
        /// Number of attempts that fail before one ends as told; counted in the folder that outlives them.
        failures: usize = 0, in 0..=1000;
        /// End of the job.
        end: MockEnd = MockEnd::Done;
    }
}

impl TaskSpec for Mock {
    const NAME: &'static str = "mock";
    const ABOUT: &'static str =
        "sleeps, reports a metric, fails, panics or hangs as told: for testing recipes and the engine";
    const HEADLINE: &'static [&'static str] = &["value"];
    const ON_DEVICE: bool = false;
    const HIDDEN: bool = true;

    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];

    const METRICS: &'static [MetricInfo] = &[
        MetricInfo { name: "value", unit: Unit::One, doc: "the parameter `value`" },
        MetricInfo { name: "bytes", unit: Unit::Bytes, doc: "length of `input`" },
    ];

    fn artifacts(values: &Values) -> Vec<String> {
        let leaves = values.get("text").is_some_and(|text| text.as_text().is_some());
        leaves.then(|| "text".to_owned()).into_iter().collect()
    }

    fn build(values: &Values) -> Option<Self> {
        <Self as Group>::from_values(values)
    }
}
