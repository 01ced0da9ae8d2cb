//! `uses: mock`.

use crate::{
    Group, MetricInfo, Param, TaskSpec, Values,
    metric::metrics,
    params::{choice, params},
};

choice! {
    /// The end of a mock job.
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
        /// Never, ignoring signals that request its end.
        Deaf = "deaf",
        /// Never, keeping a core busy.
        Spin = "spin",
        /// With a result, after much output on the protocol's channel that is not a message.
        Garbage = "garbage",
        /// With the error of a driver whose memory is exhausted.
        DeviceMemory = "device-memory",
        /// By allocating more memory than available.
        Devour = "devour",
    }
}

params! {
    /// Simulates a job, without a network.
    pub struct Mock {
        /// Duration of the job.
        seconds: f64 = 0.0, in 0.0..=3600.0, unit "s";
        /// Number of progress reports.
        steps: usize = 1, in 1..=1_000_000;
        /// Value of the metric `value`.
        value: f64 = 0.0;
        /// Has no effect; distinguishes points.
        variant: Option<usize> = None;
        /// Has no effect.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// A file to read. Its size becomes the metric `bytes`.
        input: Option<crate::Path> = None;
        /// A text to keep as the artifact `text`.
        text: Option<String> = None;
        /// Number of attempts that fail before an attempt ends according to `end`; counted in the scratch folder.
        failures: usize = 0, in 0..=1000;
        /// The end of the job.
        end: MockEnd = MockEnd::Done;
    }
}

metrics! {
    impl Mock {
        /// The parameter `value`.
        VALUE: One = "value";
        /// Size of the file `input`.
        BYTES: Bytes = "bytes", Deterministic;
    }
}

impl TaskSpec for Mock {
    const NAME: &'static str = "mock";
    const ABOUT: &'static str =
        "sleeps, reports a metric, fails, panics or hangs as told, for tests of recipes and the engine";
    const HEADLINE: &'static [&'static str] = &["value"];
    const ON_DEVICE: bool = false;
    const HIDDEN: bool = true;

    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];

    fn artifacts(values: &Values) -> Vec<String> {
        let leaves = values.get("text").is_some_and(|text| text.as_text().is_some());
        leaves.then(|| "text".to_owned()).into_iter().collect()
    }

    fn build(values: &Values) -> Option<Self> {
        <Self as Group>::from_values(values)
    }
}
