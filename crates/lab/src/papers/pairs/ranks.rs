//! Ranks that are processes: each has a shard of weights, gradients and moments, and a part of the batch.
//!
//! The first rank is the job's process. It starts the others, this program too, with the pipes of a ring as standard input
//! and output, and sends them their commands. A rank whose neighbor is gone ends, so that all do if one is killed; the first
//! rank then reports which one it was.

use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use burn::tensor::{Tensor, TensorData, activation::relu};
use rustix::stdio::{dup2_stdout, stderr, stdin, stdout};
use serde::{Deserialize, Serialize};
use sweep_job::{
    Backend,
    tasks::{Sharding, ShardingVariant},
};

use super::{
    Call, Left, Meter,
    ring::Ring,
    sharding::{Memory, Shard, backward, batch, batch_bytes, measured_memory},
};
use crate::{
    LabError,
    backend::{BackendTask, Compute, dispatch_eager},
    device::read::host,
    measure::Part,
};

/// The environment variable with the rank of a process.
const VARIABLE: &str = "SWEEP_RANK";
/// Time that ranks have to end.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The exit code of a rank whose neighbor is gone.
const ALONE: u8 = 3;

/// The words of the first rank: a step of the training, all weights, the memory, the end.
const STEP: u8 = 1;
const GATHER: u8 = 2;
const MEASURE: u8 = 3;
const END: u8 = 4;

/// A rank's task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Job {
    rank: usize,
    ranks: usize,
    n_layer: usize,
    width: usize,
    batch_size: usize,
    seed: u64,
    backend: Backend,
}

impl Job {
    fn pair(&self) -> Sharding {
        let Self { ranks, n_layer, width, batch_size, .. } = *self;
        Sharding { variant: ShardingVariant::Processes, shards: ranks, n_layer, width, batch_size }
    }
}

/// A rank's part of the training.
struct Rank<B: Compute> {
    /// Ranks in all.
    ranks: usize,
    width: usize,
    /// By layer.
    shards: Vec<Shard<B>>,
    x: Tensor<B, 2>,
    y: Tensor<B, 2>,
    steps: i32,
}

impl<B: Compute> Rank<B> {
    fn new(rank: usize, pair: &Sharding, seed: u64, device: &B::Device) -> Self {
        let rows = pair.batch_size / pair.shards;
        // A copy, so that the others' rows do not stay in memory.
        let part = |tensor: Tensor<B, 2>| tensor.narrow(0, rank * rows, rows) * 1.0;
        let [x, y] = batch::<B>(pair, seed, device).map(part);
        let shards = (0..pair.n_layer).map(|layer| Shard::new(pair, seed, layer, rank, device)).collect();
        Self { ranks: pair.shards, width: pair.width, shards, x, y, steps: 0 }
    }

    fn gathered(&self, ring: &mut Ring, layer: usize) -> Result<Vec<f32>, LabError> {
        let Some(shard) = self.shards.get(layer) else { return Ok(Vec::new()) };
        let shard_weights = host(shard.weights.clone())?;
        ring.all_gather(&shard_weights).map_err(|error| broken(&error))
    }

    /// The whole weights of a layer.
    fn weights(&self, ring: &mut Ring, layer: usize, device: &B::Device) -> Result<Tensor<B, 2>, LabError> {
        let numbers = self.gathered(ring, layer)?;
        Ok(Tensor::from_data(TensorData::new(numbers, [self.width, self.width]), device))
    }

    fn step(&mut self, ring: &mut Ring, meter: &mut Meter, device: &B::Device) -> Result<(), LabError> {
        self.steps += 1;
        let layers = self.shards.len();
        let mut inputs = vec![self.x.clone()];
        meter.part::<B, _>(Part::Forward, device, || -> Result<(), LabError> {
            for layer in 0..layers - 1 {
                let weights = self.weights(ring, layer, device)?;
                let hidden = inputs.last().map(|x| relu(x.clone().matmul(weights)));
                inputs.extend(hidden);
            }
            Ok(())
        })??;
        meter.part::<B, _>(Part::Backward, device, || -> Result<(), LabError> {
            let mut back: Option<Tensor<B, 2>> = None;
            for layer in (0..layers).rev() {
                let Some(x) = inputs.pop() else { break };
                let weights = self.weights(ring, layer, device)?;
                let Some((gradient, x_gradient)) = backward(x, weights, back.take(), &self.y) else { break };
                back = Some(x_gradient);
                let shard_gradient = ring.reduce_scatter(&host(gradient)?).map_err(|error| broken(&error))?;
                let count = shard_gradient.len();
                // Every rank's loss is the mean over its own rows.
                let mean =
                    Tensor::<B, 1>::from_data(TensorData::new(shard_gradient, [count]), device) / self.ranks as f64;
                if let Some(shard) = self.shards.get_mut(layer) {
                    shard.gradients = mean;
                }
            }
            Ok(())
        })??;
        let steps = self.steps;
        meter.part::<B, _>(Part::Optimizer, device, || {
            self.shards.iter_mut().try_for_each(|shard| shard.descend(steps))
        })?
    }

    /// All weights, by layer.
    fn output(&self, ring: &mut Ring) -> Result<Vec<f32>, LabError> {
        let mut weights = Vec::new();
        for layer in 0..self.shards.len() {
            weights.extend(self.gathered(ring, layer)?);
        }
        Ok(weights)
    }
}

/// The most memory of all ranks, which call it together.
fn most_memory<B: Compute>(
    ring: &mut Ring,
    pair: &Sharding,
    seed: u64,
    device: &B::Device,
) -> Result<Memory, LabError> {
    let place = ring.rank;
    let memory = measured_memory::<B, _>(
        device,
        || Ok(Rank::<B>::new(place, pair, seed, device)),
        |rank| rank.step(ring, &mut Meter::new(None), device),
        |_| batch_bytes(pair) / pair.shards as f64,
    )?;
    let memories = ring.all([memory.state, memory.rank].map(in_bytes)).map_err(|error| broken(&error))?;
    let maximum = |index: usize| {
        let maximum = memories.iter().map(|memory| memory[index]).max().filter(|bytes| *bytes < u64::MAX);
        maximum.map(|bytes| bytes as f64)
    };
    Ok(Memory { state: maximum(0), rank: maximum(1) })
}

/// A size that ranks exchange; the largest number where it is unknown.
fn in_bytes(bytes: Option<f64>) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes")]
    bytes.map_or(u64::MAX, |bytes| bytes.max(0.0) as u64)
}

/// The error of a rank that has lost a neighbor.
fn broken(error: &io::Error) -> LabError {
    LabError::Ranks(error.to_string())
}

/// The process of another rank, until it gets the command to end.
struct Other(Job);

impl BackendTask for Other {
    type Output = ();

    fn run<B: Compute>(self, device: &B::Device) -> Result<(), LabError> {
        let Job { rank, ranks, seed, .. } = self.0;
        let pair = self.0.pair();
        let pipes = || -> io::Result<(File, File)> {
            let pipes = (stdin().try_clone_to_owned()?.into(), stdout().try_clone_to_owned()?.into());
            // A library that prints must not disturb the neighbor.
            dup2_stdout(stderr())?;
            Ok(pipes)
        };
        let (left, right) = pipes().map_err(|error| broken(&error))?;
        let mut ring = Ring::new(rank, ranks, Box::new(left), Box::new(right));
        let mut training: Option<Rank<B>> = None;
        while let Some(word) = ring.hear().map_err(|error| broken(&error))?.filter(|word| *word != END) {
            if word == MEASURE {
                training = None;
                most_memory::<B>(&mut ring, &pair, seed, device)?;
                continue;
            }
            let rank_state = training.get_or_insert_with(|| Rank::new(rank, &pair, seed, device));
            if word == STEP {
                rank_state.step(&mut ring, &mut Meter::new(None), device)?;
            } else {
                rank_state.output(&mut ring)?;
            }
        }
        Ok(())
    }
}

/// Runs this process as the rank that its environment names, until the first rank has no more work. A rank that loses a
/// neighbor ends without a message: the first rank knows which process ended first.
pub fn main() -> ExitCode {
    let job = std::env::var(VARIABLE).ok().and_then(|text| serde_json::from_str::<Job>(&text).ok());
    let Some(job) = job.filter(|job| (1..job.ranks).contains(&job.rank)) else {
        eprintln!("this process is not a rank of a job: only jobs start such processes");
        return ExitCode::FAILURE;
    };
    let number = job.rank;
    match dispatch_eager(job.backend, Other(job)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(LabError::Ranks(_)) => ExitCode::from(ALONE),
        Err(error) => {
            eprintln!("rank {number}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The other ranks, as the first sees them.
struct Group {
    /// `None` once the other ranks have got the command to end.
    ring: Option<Ring>,
    others: Vec<Child>,
}

impl Group {
    /// Starts the other ranks of `pair`.
    fn start(pair: &Sharding, seed: u64, backend: Backend) -> Result<Self, LabError> {
        let start_error = |error: io::Error| LabError::Ranks(format!("the other ranks cannot be started: {error}"));
        let ranks = pair.shards;
        let (mut lefts, mut rights): (Vec<Option<PipeReader>>, Vec<Option<PipeWriter>>) = (Vec::new(), Vec::new());
        for _ in 0..ranks {
            let (read, write) = io::pipe().map_err(start_error)?;
            lefts.push(Some(read));
            rights.push(Some(write));
        }
        // Each rank reads from the pipe of its left neighbor.
        lefts.rotate_right(1);
        let mut pipes = lefts.into_iter().zip(rights).map(|(left, right)| left.zip(right));
        let Some((left, right)) = pipes.next().flatten() else {
            return Err(LabError::Ranks("there are no ranks".into()));
        };
        let ring = Ring::new(0, ranks, Box::new(left), Box::new(right));
        let mut group = Self { ring: Some(ring), others: Vec::new() };
        let threads = (rayon::current_num_threads() / ranks).max(1);
        for (rank, (left, right)) in (1..ranks).zip(pipes.flatten()) {
            let Sharding { n_layer, width, batch_size, .. } = *pair;
            let job = Job { rank, ranks, n_layer, width, batch_size, seed, backend };
            let job = serde_json::to_string(&job).map_err(|error| start_error(error.into()))?;
            // This program, even if its file has been replaced.
            let child = Command::new("/proc/self/exe")
                .arg0("sweep")
                .args(["worker", "--engine", &std::process::id().to_string(), "--rank"])
                .env(VARIABLE, job)
                .env("RAYON_NUM_THREADS", threads.to_string())
                .stdin(left)
                .stdout(right)
                .stderr(Stdio::inherit())
                .spawn();
            group.others.push(child.map_err(start_error)?);
        }
        Ok(group)
    }

    /// Sends `word` to the other ranks, then does `work`.
    fn all<T>(&mut self, word: u8, work: impl FnOnce(&mut Ring) -> Result<T, LabError>) -> Result<T, LabError> {
        let result = match &mut self.ring {
            Some(ring) => ring.tell(word).map_err(|error| broken(&error)).and_then(|()| work(ring)),
            None => Err(LabError::Ranks("they have ended".to_owned())),
        };
        match result {
            Err(LabError::Ranks(reason)) => Err(LabError::Ranks(self.reason(reason))),
            result => result,
        }
    }

    /// Ends all ranks; the reason why the first of them ended, or `default_reason`.
    fn reason(&mut self, default_reason: String) -> String {
        let ranks = self.others.len() + 1;
        let statuses = self.end();
        let is_cause = |status: &ExitStatus| !status.success() && status.code() != Some(i32::from(ALONE));
        let cause =
            statuses.into_iter().find_map(|(rank, status)| status.filter(is_cause).map(|status| (rank, status)));
        cause.map_or(default_reason, |(rank, status)| match (status.signal(), status.code()) {
            (Some(signal), _) => format!("rank {rank} of {ranks} was ended by signal {signal}"),
            (_, code) => format!("rank {rank} of {ranks} ended with exit code {}; see the log", code.unwrap_or(1)),
        })
    }

    /// Ends all ranks, and waits for them; a rank that does not end in time is killed, and has no status.
    fn end(&mut self) -> Vec<(usize, Option<ExitStatus>)> {
        if let Some(mut ring) = self.ring.take() {
            // An error is ignored: a rank that is gone needs no command, and the pipes end with the ring.
            let _ = ring.tell(END);
        }
        let deadline = Instant::now() + TIMEOUT;
        let mut statuses = Vec::new();
        for (index, mut child) in self.others.drain(..).enumerate() {
            let status = loop {
                match child.try_wait() {
                    Ok(Some(status)) => break Some(status),
                    Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                    _ => {
                        let _ = child.kill();
                        let _ = child.wait();
                        break None;
                    }
                }
            };
            statuses.push((index + 1, status));
        }
        statuses
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// See `Contender::ready`.
pub(super) fn ready<'a, B: Compute>(
    pair: &'a Sharding,
    seed: u64,
    device: &'a B::Device,
) -> Result<Call<'a, B>, LabError> {
    let mut group = Group::start(pair, seed, B::BACKEND)?;
    let mut rank = Rank::<B>::new(0, pair, seed, device);
    Ok(Box::new(move |meter| {
        let (sent_bytes, collective_time) = group.all(STEP, |ring| {
            (ring.sent, ring.spent) = (0, Duration::ZERO);
            rank.step(ring, meter, device)?;
            Ok((ring.sent, ring.spent))
        })?;
        meter.tell(&Sharding::SENT, sent_bytes as f64);
        meter.tell(&Sharding::TIME_COLLECTIVES, collective_time.as_secs_f64());
        // The output is compared once.
        let weights = if rank.steps == 1 { group.all(GATHER, |ring| rank.output(ring))? } else { Vec::new() };
        Ok(Left::Host(weights))
    }))
}

/// The memory of the rank that needs most.
pub(super) fn memory<B: Compute>(pair: &Sharding, seed: u64, device: &B::Device) -> Result<Memory, LabError> {
    let mut group = Group::start(pair, seed, B::BACKEND)?;
    group.all(MEASURE, |ring| most_memory::<B>(ring, pair, seed, device))
}
