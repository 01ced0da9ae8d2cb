//! `uses: pair/…`: several variants of one computation, with the same inputs and the same output.
//!
//! Every variant is a [`Contender`]: it prepares its inputs and returns a call that is then repeated. The harness warms up, times, counts
//! memory, and compares the first call's output with the output of the reference variant. A job is one variant in a separate process.
//!
//! Ranks of `pair/sharding` that are processes (`ranks.rs`) are this program again, `sweep worker --rank`, with the pipes of
//! a ring (`ring.rs`) as standard input and output, so that the end of one ends all. Pairs that do not support fusion are not
//! compiled for the fusing backends.

mod accumulation;
mod activations;
mod allocator;
mod attention;
mod autograd;
mod bandwidth;
mod checkpoints;
mod custom;
mod dataloader;
mod fp8;
mod intensity;
mod kv_cache;
mod leak;
mod matmul;
mod mlp;
mod number_format;
mod offload;
pub(crate) mod ranks;
mod regional;
mod ring;
mod sharding;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Instant};

use burn::tensor::{Tensor, TensorData, backend::Backend as BurnBackend};
use rand_distr::StandardNormal;
use sweep_job::{
    Backend, MetricInfo, Outcome, Progress, Report,
    tasks::{
        Autograd, Computing, Fusing, FusingVariant, Matmul, MatmulVariant, Pair, Protocol, Regional, RegionalVariant,
        Way, WorkerMetrics,
    },
};

use crate::{
    Folders, LabError,
    backend::{BackendTask, Compute, ExecutionTarget, dispatch, dispatch_eager, sync},
    device::read::host,
    measure::{
        self, Breakdown, Part,
        heap::{self, Heap},
    },
    ops, rng,
};

/// The file that the artifact `trace` is.
const TRACE_FILE: &str = "trace.json";
/// Calls that a trace has.
const TRACED: usize = 5;
/// Calls whose mean is `time.first`.
const FIRST: usize = 4;
/// Difference allowed where the same numbers are added in another order.
const ROUNDING: f64 = 1e-5;

/// A way to do a computation, of which there are several.
trait Contender {
    /// The way that is known to be right.
    fn reference(&self) -> Self;

    /// Largest difference between the output and the reference's, relative to the largest number there.
    fn tolerance(&self) -> f64 {
        ROUNDING
    }

    /// Creates the inputs, and returns the function that is measured. The inputs depend on `seed` alone, so all ways have
    /// the same inputs.
    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError>;

    /// Adds the metrics that follow from the first output and the median time of a call.
    fn describe(&self, _first: &[f32], _median: f64, _outcome: &mut Outcome) {}

    /// Measures quantities that a call cannot measure.
    fn further<B: Compute>(&self, _seed: u64, _device: &B::Device, _outcome: &mut Outcome) -> Result<(), LabError> {
        Ok(())
    }
}

/// Makes one call of a way.
type Call<'a, B> = Box<dyn FnMut(&mut Meter) -> Result<Left<B>, LabError> + 'a>;

/// Result of a call.
enum Left<B: BurnBackend> {
    Device(Tensor<B, 1>),
    Host(Vec<f32>),
    /// The numbers `i · stride`, around the end.
    Strided(Tensor<B, 1>, usize),
}

impl<B: BurnBackend> Left<B> {
    fn numbers(self) -> Result<Vec<f32>, LabError> {
        match self {
            Self::Device(tensor) => host(tensor),
            Self::Host(numbers) => Ok(numbers),
            Self::Strided(tensor, stride) => {
                let stored_numbers = host(tensor)?;
                let mut numbers = vec![0.0; stored_numbers.len()];
                for (index, number) in stored_numbers.iter().enumerate() {
                    numbers[index * stride % stored_numbers.len()] = *number;
                }
                Ok(numbers)
            }
        }
    }
}

/// Counters of calls.
struct Meter {
    breakdown: Breakdown,
    /// The values of every call, by metric name.
    told: BTreeMap<&'static str, (&'static MetricInfo, Vec<f64>)>,
}

impl Meter {
    fn new(trace: Option<&str>) -> Self {
        let breakdown = trace.map_or_else(|| Breakdown::new(false, false), Breakdown::traced);
        Self { breakdown, told: BTreeMap::new() }
    }

    /// Adds a value of this call; the median over the timed calls becomes the metric.
    fn tell(&mut self, metric: &'static MetricInfo, value: f64) {
        self.told.entry(metric.name).or_insert_with(|| (metric, Vec::new())).1.push(value);
    }

    /// Does `work`, which a trace calls `part`.
    fn part<B: Compute, T>(&mut self, part: Part, device: &B::Device, work: impl FnOnce() -> T) -> Result<T, LabError> {
        self.breakdown.time::<B, T>(part, device, work)
    }
}

/// Runs one way, and compares its results with the reference's.
pub(crate) fn run(
    pair: &Pair,
    backend: Backend,
    folders: &Folders,
    report: &mut dyn Report,
) -> Result<Outcome, LabError> {
    let protocol = &pair.protocol;
    let (measurements, tolerance) = match Fusable::of(&pair.way) {
        Some(fused) => {
            let computing = Computing { fusion: Fusing::On, ..Computing::default() };
            let tolerance = fused.tolerance();
            (
                dispatch(ExecutionTarget::new(backend, &computing), MeasureFused { fused, protocol, folders, report })?,
                tolerance,
            )
        }
        None => {
            let measurements = dispatch_eager(backend, Measure { way: &pair.way, protocol, folders, report })?;
            (measurements, tolerance(&pair.way))
        }
    };
    let Measured { mut outcome, first } = measurements;
    let expected = dispatch_eager(backend, Reference { way: &pair.way, seed: protocol.seed })?;
    let error = difference(&first, &expected);
    if error.is_nan() || error > tolerance {
        return Err(LabError::Output { error, allowed: tolerance });
    }
    outcome.set(&Pair::ERROR_OUTPUT, error);
    outcome.set(&Pair::ERROR_ALLOWED, tolerance);
    Ok(outcome)
}

/// The largest difference, as a part of the largest number expected; NaN if there is one, or the lengths differ.
fn difference(numbers: &[f32], expected: &[f32]) -> f64 {
    if numbers.len() != expected.len() {
        return f64::NAN;
    }
    let scale = expected.iter().map(|number| f64::from(number.abs())).fold(f64::MIN_POSITIVE, f64::max);
    let differences = numbers.iter().zip(expected).map(|(numbers, expected)| f64::from((numbers - expected).abs()));
    // `max` would drop NaN.
    differences.fold(0.0, |maximum, next| if next.is_nan() || next > maximum { next } else { maximum }) / scale
}

/// Evaluates an expression with the contender of a way.
macro_rules! with_contender {
    ($way:expr, $name:ident => $call:expr) => {
        match $way {
            Way::Accumulation($name) => $call,
            Way::Activations($name) => $call,
            Way::Allocator($name) => $call,
            Way::Attention($name) => $call,
            Way::Autograd($name) => $call,
            Way::Bandwidth($name) => $call,
            Way::Checkpoints($name) => $call,
            Way::Custom($name) => $call,
            Way::Dataloader($name) => $call,
            Way::Intensity($name) => $call,
            Way::KvCache($name) => $call,
            Way::Leak($name) => $call,
            Way::Matmul($name) => $call,
            Way::NumberFormat($name) => $call,
            Way::Regional($name) => $call,
            Way::Sharding($name) => $call,
        }
    };
}

fn tolerance(way: &Way) -> f64 {
    with_contender!(way, contender => contender.tolerance())
}

/// Contenders that can be fused. They are a separate list, because each is compiled once more for every backend.
enum Fusable<'a> {
    Autograd(&'a Autograd),
    Matmul(&'a Matmul),
    Regional(&'a Regional),
}

impl<'a> Fusable<'a> {
    /// The contender, if it requests fusion.
    fn of(way: &'a Way) -> Option<Self> {
        match way {
            Way::Autograd(way) if way.variant == FusingVariant::Fused => Some(Self::Autograd(way)),
            Way::Matmul(way) if way.variant == MatmulVariant::Fused => Some(Self::Matmul(way)),
            Way::Regional(way) if way.variant != RegionalVariant::Eager => Some(Self::Regional(way)),
            _ => None,
        }
    }

    fn tolerance(&self) -> f64 {
        match self {
            Self::Autograd(way) => way.tolerance(),
            Self::Matmul(way) => way.tolerance(),
            Self::Regional(way) => way.tolerance(),
        }
    }
}

/// Measurements, and the first call's output.
struct Measured {
    outcome: Outcome,
    first: Vec<f32>,
}

struct Measure<'a> {
    way: &'a Way,
    protocol: &'a Protocol,
    folders: &'a Folders,
    report: &'a mut dyn Report,
}

impl BackendTask for Measure<'_> {
    type Output = Measured;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Measured, LabError> {
        let Self { way, protocol, folders, report } = self;
        with_contender!(way, contender => measured::<B, _>(contender, protocol, folders, device, report))
    }
}

struct MeasureFused<'a> {
    fused: Fusable<'a>,
    protocol: &'a Protocol,
    folders: &'a Folders,
    report: &'a mut dyn Report,
}

impl BackendTask for MeasureFused<'_> {
    type Output = Measured;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Measured, LabError> {
        let Self { fused, protocol, folders, report } = self;
        match fused {
            Fusable::Autograd(way) => measured::<B, _>(way, protocol, folders, device, report),
            Fusable::Matmul(way) => measured::<B, _>(way, protocol, folders, device, report),
            Fusable::Regional(way) => measured::<B, _>(way, protocol, folders, device, report),
        }
    }
}

/// The output that is known to be right.
struct Reference<'a> {
    way: &'a Way,
    seed: u64,
}

impl BackendTask for Reference<'_> {
    type Output = Vec<f32>;

    fn run<B: Compute>(self, device: &B::Device) -> Result<Vec<f32>, LabError> {
        let Self { way, seed } = self;
        with_contender!(way, contender => {
            let reference = contender.reference();
            let mut call = reference.ready::<B>(seed, device)?;
            call(&mut Meter::new(None))?.numbers()
        })
    }
}

fn measured<B: Compute, C: Contender>(
    contender: &C,
    protocol: &Protocol,
    folders: &Folders,
    device: &B::Device,
    report: &mut dyn Report,
) -> Result<Measured, LabError> {
    let Protocol { warmups, calls, seed, trace } = *protocol;
    // Creates threads, queues and the like before anything is counted.
    drop(host(Tensor::<B, 1>::ones([1], device))?);
    let mut call = contender.ready::<B>(seed, device)?;
    sync::<B>(device)?;
    let mut meter = Meter::new(None);
    let total = (warmups + calls) as u64;
    let mut run_call = |call: &mut Call<'_, B>, meter: &mut Meter, done: usize| -> Result<(f64, Left<B>), LabError> {
        let start = Instant::now();
        let result = call(meter)?;
        sync::<B>(device)?;
        let seconds = start.elapsed().as_secs_f64();
        report.progress(Progress { done: done as u64, total, ..Progress::default() });
        Ok((seconds, result))
    };

    let start_memory = B::device_memory(device);
    let (seconds, first_output) = run_call(&mut call, &mut meter, 1)?;
    let end_memory = B::device_memory(device);
    let first_output = first_output.numbers()?;
    let mut first_seconds = vec![seconds];
    for number in 2..=warmups {
        first_seconds.push(run_call(&mut call, &mut meter, number)?.0);
    }
    first_seconds.truncate(FIRST);
    meter.told.clear();
    let mut seconds = Vec::with_capacity(calls);
    for number in 1..=calls {
        seconds.push(run_call(&mut call, &mut meter, warmups + number)?.0);
    }

    let mut outcome = Outcome::default();
    outcome.set(&Pair::FIRST, first_seconds.iter().sum::<f64>() / first_seconds.len() as f64);
    let median = describe(&mut outcome, &mut seconds);
    for (metric, mut values) in std::mem::take(&mut meter.told).into_values() {
        outcome.set(metric, measure::median(&mut values).unwrap_or(f64::NAN));
    }
    contender.describe(&first_output, median, &mut outcome);
    if trace {
        traced::<B>(&mut call, device, folders)?;
        outcome.artifacts.insert(Pair::TRACE.to_owned(), TRACE_FILE.to_owned());
    }
    drop(call);
    if let Some((start_memory, end_memory)) = start_memory.zip(end_memory) {
        outcome.set(&Pair::MEMORY_CALL, end_memory.reserved.saturating_sub(start_memory.reserved) as f64);
    } else if let Some(heap) = counted::<B, C>(contender, seed, device)? {
        outcome.set(&Pair::MEMORY_CALL, heap.peak as f64);
        outcome.set(&Pair::ALLOCATIONS, heap.allocations as f64);
    }
    contender.further::<B>(seed, device, &mut outcome)?;
    if let Some(bytes) = measure::peak_memory() {
        outcome.set(&WorkerMetrics::MEMORY_PEAK, bytes);
    }
    Ok(Measured { outcome, first: first_output })
}

/// Heap activity of the first call on its own inputs. By now threads have whatever they keep for themselves, which
/// would be counted by chance.
fn counted<B: Compute, C: Contender>(contender: &C, seed: u64, device: &B::Device) -> Result<Option<Heap>, LabError> {
    let mut call = contender.ready::<B>(seed, device)?;
    sync::<B>(device)?;
    ops::release_idle();
    let (result, heap) = heap::counted(|| call(&mut Meter::new(None)));
    result?;
    Ok(heap)
}

/// Adds the times of calls, and returns their median.
fn describe(outcome: &mut Outcome, seconds: &mut [f64]) -> f64 {
    let count = seconds.len() as f64;
    let mean = seconds.iter().sum::<f64>() / count;
    let squares: f64 = seconds.iter().map(|second| (second - mean).powi(2)).sum();
    let [p25, p75] = [0.25, 0.75].map(|q| measure::quantile(seconds, q).unwrap_or(f64::NAN));
    let median = measure::median(seconds).unwrap_or(f64::NAN);
    outcome.set(&Pair::CALL, median);
    outcome.set(&Pair::CALL_MEAN, mean);
    outcome.set(&Pair::CALL_STD, (squares / (count - 1.0)).sqrt());
    outcome.set(&Pair::CALL_IQR, p75 - p25);
    outcome.set(&Pair::CALL_P75, p75);
    median
}

/// Writes a timeline of a few calls.
fn traced<B: Compute>(call: &mut Call<'_, B>, device: &B::Device, folders: &Folders) -> Result<(), LabError> {
    let mut meter = Meter::new(Some("pair"));
    for number in 1..=TRACED {
        let start = Instant::now();
        let result = call(&mut meter)?;
        sync::<B>(device)?;
        if let Some(trace) = meter.breakdown.trace() {
            trace.step(number, start, Instant::now());
        }
        drop(result);
    }
    let path = folders.files.join(TRACE_FILE);
    match meter.breakdown.into_trace() {
        Some(trace) => trace.write(&path).map_err(|source| LabError::Write { path, source }),
        None => Ok(()),
    }
}

/// `count` numbers from a normal distribution with standard deviation `scale`, the same on every backend.
fn normal(seed: u64, name: &str, index: usize, count: usize, scale: f32) -> Vec<f32> {
    let mut random = rng::stream(seed, "pair", name, &[index as u64]);
    (0..count)
        .map(|_| scale * <StandardNormal as rand_distr::Distribution<f32>>::sample(&StandardNormal, &mut random))
        .collect()
}

/// A tensor of [`normal`] numbers.
fn tensor<B: BurnBackend, const D: usize>(
    seed: u64,
    name: &str,
    index: usize,
    shape: [usize; D],
    scale: f32,
    device: &B::Device,
) -> Tensor<B, D> {
    let numbers = normal(seed, name, index, shape.iter().product(), scale);
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

/// All numbers of a tensor in a row.
fn flat<B: BurnBackend, const D: usize>(tensor: Tensor<B, D>) -> Tensor<B, 1> {
    let count = tensor.shape().num_elements();
    tensor.reshape([count])
}
