//! `uses: pair/…`: the pairs of chapter 13 of paper 004. Each task performs one computation in several variants, one of
//! which is the baseline. All variants get the same inputs and must give the same output.
//!
//! A pair is declared in its own file. A new one is that file, its `mod` line and a line in the list of pairs below.

mod accumulation;
mod activations;
mod allocator;
mod attention;
mod autograd;
mod bandwidth;
mod checkpoints;
mod custom;
mod dataloader;
mod intensity;
mod kv_cache;
mod leak;
mod matmul;
mod number_format;
mod regional;
mod sharding;

use crate::{
    Conflict, Group, MetricInfo, Param, TaskInfo, TaskSpec, Value, Values, metric::metrics, params::params,
    task::Named, tasks::WorkerMetrics,
};

params! {
    /// Warm-up, repetitions and seed of a measurement.
    pub struct Protocol {
        /// Warm-up calls before the timed calls.
        warmups: usize = 5, in 5..=100_000;
        /// Timed calls.
        calls: usize = 20, in 1..=1_000_000;
        /// Seed of inputs and weights.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Keep a timeline of five further calls as the artifact `trace`, in the trace-event JSON format that Perfetto
        /// reads.
        trace: bool = false;
    }
}

/// A measurement of one variant of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Warm-up, repetitions and seed.
    pub protocol: Protocol,
    /// The pair with its variant and sizes.
    pub way: Way,
}

impl Pair {
    /// The name of the artifact that `trace` keeps.
    pub const TRACE: &'static str = "trace";
}

metrics! {
    impl Pair {
        /// Median time of a call.
        CALL: Seconds = "time.call";
        /// Mean time of a call.
        CALL_MEAN: Seconds = "time.call.mean";
        /// Standard deviation of the call times.
        CALL_STD: Seconds = "time.call.std";
        /// Interquartile range of the call times.
        CALL_IQR: Seconds = "time.call.iqr";
        /// 75th percentile of the call times.
        CALL_P75: Seconds = "time.call.p75";
        /// Mean time of the first four calls, before any warm-up.
        FIRST: Seconds = "time.first";
        /// Peak memory of the first call in addition to its inputs. On the CPU, heap memory; on a GPU, device memory
        /// that the allocator reserved from the driver.
        MEMORY_CALL: Bytes = "memory.call", Deterministic;
        /// Number of heap allocations in the first call.
        ALLOCATIONS: Count = "allocations";
        /// Largest difference between the output of the first call and the output of the baseline, relative to the
        /// largest element of the latter.
        ERROR_OUTPUT: Fraction = "error.output";
        /// Maximum allowed `error.output`. Above it, the job fails.
        ERROR_ALLOWED: Fraction = "error.allowed", Deterministic;
    }
}

/// The declaration of a pair's task.
pub(crate) trait Declared: Group + Into<Way> {
    /// Name in a step's `uses`.
    const NAME: &'static str;
    /// One-line description.
    const ABOUT: &'static str;
    /// Metrics of this pair alone.
    const OWN_METRICS: &'static [MetricInfo] = &[];
    /// Metrics that it shares with other tasks.
    const SHARED_METRICS: &'static [MetricInfo] = &[];

    /// Conflicts between the parameters.
    fn conflicts(&self) -> Vec<Conflict> {
        Vec::new()
    }
}

impl<P: Declared> TaskSpec for P {
    const NAME: &'static str = <P as Declared>::NAME;
    const ABOUT: &'static str = <P as Declared>::ABOUT;
    const HEADLINE: &'static [&'static str] = &["time.call", "memory.call"];
    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS, Protocol::PARAMS];
    const METRICS: &'static [&'static [MetricInfo]] =
        &[Pair::DECLARED, WorkerMetrics::DECLARED, Self::OWN_METRICS, Self::SHARED_METRICS];

    fn build(values: &Values) -> Option<Self> {
        Self::from_values(values)
    }

    fn artifacts(values: &Values) -> Vec<String> {
        let traced = values.get("trace") == Some(&Value::Bool(true));
        if traced { vec![Pair::TRACE.to_owned()] } else { Vec::new() }
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        Self::build(values).map(|pair| Declared::conflicts(&pair)).unwrap_or_default()
    }
}

/// The entry of a pair in the list of tasks.
const fn pair<P: Declared>() -> TaskInfo {
    TaskInfo::new::<P>(|values| {
        let protocol = Protocol::from_values(values)?;
        Some(Pair { protocol, way: P::build(values)?.into() }.into())
    })
}

/// Collects the pairs in one enumeration, and in the list of tasks.
macro_rules! pairs {
    ($($module:ident: $pair:ident),+ $(,)?) => {
        $( pub use $module::*; )+

        /// One of the pairs.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant has the name of its parameters")]
        pub enum Way { $( $pair($pair), )+ }

        $(
            impl From<$pair> for Way {
                fn from(pair: $pair) -> Self {
                    Self::$pair(pair)
                }
            }
        )+

        impl Named for Pair {
            const NAMES: &'static [TaskInfo] = &[$( pair::<$pair>() ),+];
        }
    };
}

// In the order of documentation.
pairs! {
    dataloader: Dataloader,
    bandwidth: Bandwidth,
    number_format: NumberFormat,
    checkpoints: Checkpoints,
    intensity: Intensity,
    activations: Activations,
    leak: Leak,
    attention: Attention,
    kv_cache: KvCache,
    matmul: Matmul,
    allocator: Allocator,
    accumulation: Accumulation,
    sharding: Sharding,
    autograd: Autograd,
    custom: Custom,
    regional: Regional,
}

fn conflict(params: Vec<&'static str>, message: String, advice: &str) -> Conflict {
    Conflict { params, message, advice: advice.to_owned() }
}

/// The conflict of a width that its heads do not divide, if there is one.
fn undivided_heads(n_head: usize, d_model: usize) -> Option<Conflict> {
    (!d_model.is_multiple_of(n_head)).then(|| {
        let message = format!("`d_model: {d_model}` is not a multiple of `n_head: {n_head}`");
        conflict(vec!["n_head", "d_model"], message, "choose an `n_head` that divides `d_model`")
    })
}
