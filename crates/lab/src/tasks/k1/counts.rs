//! Counts of a training of the hierarchy: losses, updated nodes, readings; and why something was not measured.

use std::time::Duration;

use burn::tensor::Tensor;
use sweep_job::{
    Backend, Outcome,
    tasks::{K1, K1Precision, LossReads, UpdateRule},
};

use crate::{
    LabError,
    backend::Compute,
    device::read::{self, number},
    optim::Gradients,
    papers::k1::Factors,
    tasks::Mean,
};

/// Adds the reason for every declared metric that was not measured.
pub(super) fn explain_absence(outcome: &mut Outcome, k1: &K1, backend: Backend) {
    let reason = |name: &str| -> &str {
        match name {
            "fusion.operations" | "fusion.kernels" | "fusion.unfused" if backend == Backend::Cpu => {
                "the CPU backend compiles no kernels, so there is nothing to fuse"
            }
            "time.selection" | "reads.selection" | "selection.agreement" if k1.update.update == UpdateRule::All => {
                "all nodes are updated, so none are chosen"
            }
            "selection.agreement" => "needs `agreement: true`",
            "time.selection" | "time.data" | "time.forward" | "time.backward" | "time.optimizer"
                if !k1.training.breakdown =>
            {
                "needs `breakdown: true`"
            }
            "steps.skipped" | "loss_scale" if k1.computing.precision != K1Precision::MixedF16 => {
                "only half precision needs a factor of the loss"
            }
            "steps.skipped" | "loss_scale" => "needs `loss_scaling: dynamic`",
            "gradients.zero" => "needs a `precision` other than `f32`",
            "memory.peak" => "this system does not report the memory of a process",
            _ => "one iteration is not enough to measure it",
        }
    };
    for name in K1::metric_names().filter(|name| !outcome.metrics.contains_key(*name)) {
        outcome.facts.entry(format!("absent.{name}")).or_insert_with(|| reason(name).to_owned());
    }
}

/// The losses since the last log point.
pub(super) enum Losses<B: Compute> {
    /// Each read when it is there.
    Read { sum: f64, count: usize },
    /// Added on the device.
    Kept(Mean<B>),
}

impl<B: Compute> Losses<B> {
    pub(super) fn new(reads: LossReads) -> Self {
        match reads {
            LossReads::EveryStep => Self::Read { sum: 0.0, count: 0 },
            LossReads::Accumulated => Self::Kept(Mean::default()),
        }
    }

    pub(super) fn add(&mut self, loss: Tensor<B, 1>) -> Result<(), LabError> {
        match self {
            Self::Read { sum, count } => {
                *sum += number(loss)?;
                *count += 1;
            }
            Self::Kept(mean) => mean.add(loss),
        }
        Ok(())
    }

    /// The mean since the last call.
    pub(super) fn take(&mut self) -> Result<f64, LabError> {
        match self {
            Self::Read { sum, count } => {
                let mean = *sum / *count as f64;
                (*sum, *count) = (0.0, 0);
                Ok(mean)
            }
            Self::Kept(mean) => mean.read(),
        }
    }
}

/// The nodes updated, summed over steps.
pub(super) struct Updated<B: Compute> {
    host: f64,
    device: Option<Tensor<B, 1>>,
}

impl<B: Compute> Default for Updated<B> {
    fn default() -> Self {
        Self { host: 0.0, device: None }
    }
}

impl<B: Compute> Updated<B> {
    pub(super) fn add(&mut self, factors: &Factors<B>) {
        match factors {
            Factors::Host(factors) => self.host += factors.iter().filter(|factor| **factor != 0.0).count() as f64,
            Factors::Device(factors) => {
                let nodes = factors.clone().greater_elem(0.0).float().sum();
                self.device = Some(match self.device.take() {
                    Some(sum) => sum + nodes,
                    None => nodes,
                });
            }
        }
    }

    pub(super) fn read(self) -> Result<f64, LabError> {
        Ok(self.host + self.device.map_or(Ok(0.0), number)?)
    }
}

/// Readings so far, and their time.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) reads: u64,
    pub(super) waited: Duration,
}

impl Reading {
    pub(super) fn now() -> Self {
        Self { reads: read::reads(), waited: read::waited() }
    }

    /// Moves this point in time by the readings since `other`, as if they had not been made.
    pub(super) fn without(&mut self, other: Self) {
        let reading = Self::now();
        self.reads += reading.reads - other.reads;
        self.waited += reading.waited.saturating_sub(other.waited);
    }
}

/// Zeros among the elements of gradients.
pub(super) struct Zeros<B: Compute> {
    /// Number of zeros, `[1]`.
    zeros: Tensor<B, 1>,
    elements: usize,
}

impl<B: Compute> Zeros<B> {
    /// Counts the zeros of `gradients`, without reading; `None` if there are no gradients.
    pub(super) fn of(gradients: &Gradients<B>) -> Option<Self> {
        let elements = gradients.iter().flatten().map(|gradient| gradient.dims()[0]).sum();
        let zeros = gradients.iter().flatten().map(|gradient| gradient.clone().equal_elem(0.0).float().sum());
        Some(Self { zeros: zeros.reduce(|sum, zeros| sum + zeros)?, elements })
    }

    /// Their fraction.
    pub(super) fn read(self) -> Result<f64, LabError> {
        Ok(number(self.zeros)? / self.elements as f64)
    }
}
