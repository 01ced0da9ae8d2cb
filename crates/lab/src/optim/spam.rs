//! SPAM: guards against spikes in the gradient, around AdamW (ratio-ablation, section 8.1).
//!
//! An iteration has these stages: single elements are clipped relative to their second moment; the global norm is added
//! to the last hundred, and if it is far above them, both moments are damped; every `spam_interval` iterations the
//! moments are reset, and the learning rate rises from 0 again.
//!
//! The reference's deviations are available as `spam_reference` only. There an iteration counts twice, so resets are
//! twice as frequent as configured; and elements are clipped by a second moment without bias correction, which reduces
//! gradients for hundreds of iterations at the start and after every reset.
//!
//! The spike test is computed on the device: the host never waits for it.

use burn::tensor::{Tensor, backend::Backend};
use sweep_job::tasks::Optimizer;

use super::Gradients;
use crate::{LabError, StateError, device::read, files::Snapshot, ops::AdamWState};

/// Norms remembered.
const RING: usize = 100;
/// Norms there must be before one can be a spike.
const MIN_NORMS: f64 = 10.0;
/// Damping of the first and of the second moment by a spike.
const DAMPING: [f64; 2] = [0.5, 0.1];
/// Smallest factor of the learning rate after a reset.
const MIN_FACTOR: f64 = 1e-3;
/// Added to the second moment in the element clip.
const CLIP_EPSILON: f64 = 1e-12;

/// The guards and their state.
#[derive(Debug)]
pub(super) struct Spam<B: Backend> {
    theta: f64,
    clip_after: u64,
    spike_z: f64,
    interval: u64,
    warmup: u64,
    reset_all: bool,
    reference: bool,
    /// Number of iterations so far, or twice that number if `reference` is true.
    count: u64,
    /// Steps that are in the second moment: since the start or the last reset.
    age: u64,
    /// The count at which the learning rate is whole again.
    warm_at: u64,
    rate_factor: f64,
    norms: Option<Norms<B>>,
    /// 1 if the gradients of this iteration are a spike, else 0, `[1]`.
    spike: Option<Tensor<B, 1>>,
}

/// The last norms.
#[derive(Debug)]
struct Norms<B: Backend> {
    /// The newest last, `[RING]`.
    ring: Tensor<B, 1>,
    /// 1 where `ring` has a norm, 0 where it is still empty, `[RING]`.
    filled: Tensor<B, 1>,
    /// Spikes so far, `[1]`.
    spikes: Tensor<B, 1>,
}

/// Statistics of SPAM.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The last finite global norm of the gradients, elements clipped, before clipping by the norm.
    pub norm: f64,
    /// Spikes so far.
    pub spikes: f64,
}

impl<B: Backend> Spam<B> {
    pub(super) fn new(settings: &Optimizer) -> Self {
        Self {
            theta: settings.spam_theta,
            clip_after: settings.spam_clip_after as u64,
            spike_z: settings.spam_spike_z,
            interval: settings.spam_interval as u64,
            warmup: settings.spam_warmup as u64,
            reset_all: settings.spam_reset_all && !settings.spam_reference,
            reference: settings.spam_reference,
            count: 0,
            age: 0,
            warm_at: 0,
            rate_factor: 1.0,
            norms: None,
            spike: None,
        }
    }

    pub(super) fn rate_factor(&self) -> f64 {
        self.rate_factor
    }

    /// True if a reset clears AMSGrad's maximum and the step count too.
    pub(super) fn resets_all(&self) -> bool {
        self.reset_all
    }

    /// Clips every element of `gradients` to `sqrt(theta v)`, where `v` is the expected value of its square.
    pub(super) fn clip_elements(
        &self,
        gradients: Gradients<B>,
        states: &[Option<AdamWState<B>>],
        beta_2: f64,
    ) -> Gradients<B> {
        if self.theta == 0.0 || (!self.reference && self.age < self.clip_after.max(1)) {
            return gradients;
        }
        let age = i32::try_from(self.age).unwrap_or(i32::MAX);
        let correction = if self.reference { 1.0 } else { 1.0 - beta_2.powi(age) };
        let clip = |(gradient, state): (Option<Tensor<B, 1>>, &Option<AdamWState<B>>)| match (gradient, state) {
            (Some(gradient), Some(state)) => {
                let limit = ((state.moment_2.clone() / correction + CLIP_EPSILON) * self.theta).sqrt();
                Some(gradient.max_pair(limit.clone().neg()).min_pair(limit))
            }
            (gradient, _) => gradient,
        };
        gradients.into_iter().zip(states).map(clip).collect()
    }

    /// Remembers `norm`, the global norm of an iteration's gradients, `[1]`, and decides if it is a spike: at least ten norms are known,
    /// and `norm` is more than `spike_z` standard deviations above the mean of the norms before it. A non-finite norm is neither remembered
    /// nor a spike.
    pub(super) fn observe(&mut self, norm: Tensor<B, 1>) {
        if self.reference {
            self.count += 1;
        }
        let device = norm.device();
        let Norms { ring, filled, spikes } = self.norms.take().unwrap_or_else(|| Norms {
            ring: Tensor::zeros([RING], &device),
            filled: Tensor::zeros([RING], &device),
            spikes: Tensor::zeros([1], &device),
        });
        let finite_mask = norm.clone().lower_elem(f32::MAX);
        let shift = |values: Tensor<B, 1>, value: Tensor<B, 1>| {
            let next_values = Tensor::cat(vec![values.clone().narrow(0, 1, RING - 1), value], 0);
            values.mask_where(finite_mask.clone().expand([RING]), next_values)
        };
        let ring = shift(ring, norm.clone());
        let filled = shift(filled, norm.ones_like());

        let earlier_norms = ring.clone().narrow(0, 0, RING - 1);
        let mask = filled.clone().narrow(0, 0, RING - 1);
        let number = mask.clone().sum();
        let divisor = number.clone().clamp_min(1.0);
        let mean = (earlier_norms.clone() * mask.clone()).sum() / divisor.clone();
        let distance = (earlier_norms - mean.clone()) * mask;
        let deviation = ((distance.clone() * distance).sum() / divisor).sqrt();
        let is_spike = (norm - mean)
            .greater(deviation.clone() * self.spike_z)
            .bool_and(deviation.greater_elem(0.0))
            .bool_and(filled.clone().sum().greater_equal_elem(MIN_NORMS))
            .bool_and(finite_mask);
        let spike = if self.spike_z == 0.0 { number.zeros_like() } else { is_spike.float() };
        self.spike = Some(spike.clone());
        self.norms = Some(Norms { ring, filled, spikes: spikes + spike });
    }

    /// Factors of both moments in this iteration, each `[1]`; `None` if it has had no gradients.
    pub(super) fn damping(&mut self) -> Option<[Tensor<B, 1>; 2]> {
        let spike = self.spike.take()?;
        Some(DAMPING.map(|part| spike.clone() * -part + 1.0))
    }

    /// Counts an iteration; returns whether the moments must be reset before its step.
    pub(super) fn advance(&mut self) -> bool {
        self.count += 1;
        let is_reset = self.interval > 0 && self.count.is_multiple_of(self.interval);
        if is_reset {
            self.age = 0;
            self.warm_at = self.count + self.warmup;
        }
        self.age += 1;
        let remaining_steps = self.warm_at.saturating_sub(self.count);
        self.rate_factor = if remaining_steps == 0 {
            1.0
        } else {
            let progress = (self.warmup - remaining_steps) as f64 / self.warmup as f64;
            (0.5 * (1.0 - (std::f64::consts::PI * progress).cos())).max(MIN_FACTOR)
        };
        is_reset
    }

    pub(super) fn reading(&self) -> Result<Option<Reading>, LabError> {
        let Some(norms) = &self.norms else { return Ok(None) };
        let last_norm = norms.ring.clone().narrow(0, RING - 1, 1);
        let numbers = read::host(Tensor::cat(vec![last_norm, norms.spikes.clone()], 0))?;
        Ok(match numbers[..] {
            [norm, spikes] => Some(Reading { norm: norm.into(), spikes: spikes.into() }),
            _ => None,
        })
    }

    pub(super) fn store(&self, snapshot: &mut Snapshot<B>) {
        snapshot.put_count("spam.count", self.count);
        snapshot.put_count("spam.age", self.age);
        snapshot.put_count("spam.warm_at", self.warm_at);
        if let Some(Norms { ring, filled, spikes }) = &self.norms {
            snapshot.put("spam.norms".into(), ring.clone());
            snapshot.put("spam.norms_filled".into(), filled.clone());
            snapshot.put("spam.spikes".into(), spikes.clone());
        }
    }

    pub(super) fn restore(&mut self, snapshot: &mut Snapshot<B>) -> Result<(), StateError> {
        self.count = snapshot.take_count("spam.count")?;
        self.age = snapshot.take_count("spam.age")?;
        self.warm_at = snapshot.take_count("spam.warm_at")?;
        let ring = snapshot.take("spam.norms", RING)?;
        let filled = snapshot.take("spam.norms_filled", RING)?;
        let spikes = snapshot.take("spam.spikes", 1)?;
        self.norms = match (ring, filled, spikes) {
            (Some(ring), Some(filled), Some(spikes)) => Some(Norms { ring, filled, spikes }),
            (None, None, None) => None,
            _ => return Err(StateError::Missing { name: "spam.norms".into() }),
        };
        Ok(())
    }
}
