//! AdamW, AMSGrad and SPAM compared with an implementation in 64 bits that follows ratio-ablation, section 8.1, line by
//! line.

use std::collections::VecDeque;

use crate::common::{Inner, Small, Train, host};
use burn::{backend::flex::FlexDevice, tensor::Tensor};
use sweep_job::tasks::{DecayOn, Optimizer, OptimizerKind};
use sweep_lab::{
    model,
    optim::{self, AdamW, Gradients},
};

const STEPS: u64 = 200;
const LR: f64 = 1e-2;

/// Standard deviation of the gradients of iteration `iter`: their norm is below 1 but for four spikes.
fn scale(iter: u64) -> f32 {
    if [45, 90, 91, 160].contains(&iter) { 1.6 } else { 0.08 }
}

/// Runs one iteration like the training loop.
fn iterate(network: Small<Train>, optimizer: &mut AdamW<Inner>, iter: u64, settings: &Optimizer) -> Small<Train> {
    let (gradients, norm) = optimizer.guard(network.gradients(iter, scale(iter)));
    let gradients = match norm {
        Some(norm) => optim::clip_norm(gradients, norm, settings.grad_clip),
        None => optim::clip_global_norm(gradients, settings.grad_clip),
    };
    optimizer.step::<Train, _>(network, gradients, LR).unwrap()
}

/// The same in 64 bits.
struct Reference {
    settings: Optimizer,
    weights: Vec<Vec<f64>>,
    m: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
    v_max: Vec<Vec<f64>>,
    t: i32,
    global_step: usize,
    since_reset: i32,
    warm_until: usize,
    norms: VecDeque<f64>,
    spikes: usize,
    clipped: usize,
}

impl Reference {
    fn new(settings: &Optimizer, weights: &[Vec<f32>]) -> Self {
        let weights: Vec<Vec<f64>> = weights.iter().map(|part| part.iter().map(|w| f64::from(*w)).collect()).collect();
        let zeros: Vec<Vec<f64>> = weights.iter().map(|part| vec![0.0; part.len()]).collect();
        Self {
            settings: settings.clone(),
            weights,
            m: zeros.clone(),
            v: zeros.clone(),
            v_max: zeros,
            t: 0,
            global_step: 0,
            since_reset: 0,
            warm_until: 0,
            norms: VecDeque::new(),
            spikes: 0,
            clipped: 0,
        }
    }

    fn is_spam(&self) -> bool {
        self.settings.optimizer == OptimizerKind::AdamWSpam
    }

    fn step(&mut self, gradients: Gradients<Inner>) {
        let mut gradients: Vec<Vec<f64>> =
            gradients.into_iter().flatten().map(|part| host(part).into_iter().map(f64::from).collect()).collect();
        if self.is_spam() && self.settings.spam_theta > 0.0 {
            self.clip_elements(&mut gradients);
        }
        let norm = gradients.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        if self.is_spam() {
            self.find_spike(norm);
        }
        if self.settings.grad_clip > 0.0 {
            let factor = (self.settings.grad_clip / (norm + 1e-6)).min(1.0);
            gradients.iter_mut().flatten().for_each(|g| *g *= factor);
        }
        let lr = if self.is_spam() { LR * self.reset() } else { LR };
        self.adamw(&gradients, lr);
    }

    fn clip_elements(&mut self, gradients: &mut [Vec<f64>]) {
        let Optimizer { spam_theta: theta, spam_clip_after: after, spam_reference: reference, beta_2, .. } =
            self.settings;
        let correction = if reference {
            if self.t == 0 {
                return;
            }
            1.0
        } else {
            if self.since_reset < i32::try_from(after).unwrap() {
                return;
            }
            1.0 - beta_2.powi(self.since_reset)
        };
        for (gradients, v) in gradients.iter_mut().zip(&self.v) {
            for (g, v) in gradients.iter_mut().zip(v) {
                let threshold = (theta * (v / correction + 1e-12)).sqrt();
                self.clipped += usize::from(g.abs() > threshold);
                *g = g.signum() * g.abs().min(threshold);
            }
        }
    }

    fn find_spike(&mut self, norm: f64) {
        self.norms.push_back(norm);
        if self.norms.len() > 100 {
            self.norms.pop_front();
        }
        if self.settings.spam_reference {
            self.global_step += 1;
        }
        if self.norms.len() < 10 {
            return;
        }
        let history: Vec<f64> = self.norms.iter().copied().take(self.norms.len() - 1).collect();
        let mean = history.iter().sum::<f64>() / history.len() as f64;
        let deviation =
            (history.iter().map(|norm| (norm - mean) * (norm - mean)).sum::<f64>() / history.len() as f64).sqrt();
        if deviation > 0.0 && (norm - mean) / deviation > self.settings.spam_spike_z {
            self.spikes += 1;
            self.m.iter_mut().flatten().for_each(|m| *m *= 0.5);
            self.v.iter_mut().flatten().for_each(|v| *v *= 0.9);
        }
    }

    /// The learning rate's factor.
    fn reset(&mut self) -> f64 {
        let Optimizer { spam_interval: interval, spam_warmup: warmup, spam_reset_all: all, spam_reference, .. } =
            self.settings;
        self.global_step += 1;
        if interval > 0 && self.global_step.is_multiple_of(interval) {
            self.m.iter_mut().flatten().for_each(|m| *m = 0.0);
            self.v.iter_mut().flatten().for_each(|v| *v = 0.0);
            self.since_reset = 0;
            if all && !spam_reference {
                self.v_max.iter_mut().flatten().for_each(|v| *v = 0.0);
                self.t = 0;
            }
            if warmup > 0 {
                self.warm_until = self.global_step + warmup;
            }
        }
        if self.global_step >= self.warm_until {
            return 1.0;
        }
        let remaining = self.warm_until - self.global_step;
        let passed = (warmup - remaining) as f64 / warmup as f64;
        (0.5 * (1.0 - (std::f64::consts::PI * passed).cos())).max(1e-3)
    }

    fn adamw(&mut self, gradients: &[Vec<f64>], lr: f64) {
        let Optimizer { beta_1, beta_2, epsilon, weight_decay, .. } = self.settings;
        let amsgrad = self.settings.uses_amsgrad();
        self.t += 1;
        self.since_reset += 1;
        for (part, gradients) in gradients.iter().enumerate() {
            // The last part is the vector, which `linear` does not decay.
            let decay = if part == 2 { 0.0 } else { weight_decay };
            for (at, g) in gradients.iter().enumerate() {
                let (m, v, v_max) = (&mut self.m[part][at], &mut self.v[part][at], &mut self.v_max[part][at]);
                *m = beta_1 * *m + (1.0 - beta_1) * g;
                *v = beta_2 * *v + (1.0 - beta_2) * g * g;
                *v_max = v_max.max(*v);
                let second = if amsgrad { *v_max } else { *v };
                let denominator = (second / (1.0 - beta_2.powi(self.t))).sqrt() + epsilon;
                let w = &mut self.weights[part][at];
                *w = *w * (1.0 - lr * decay) - lr * (*m / (1.0 - beta_1.powi(self.t))) / denominator;
            }
        }
    }
}

/// The weights after every step are those of the reference, to 1e-5 of the largest.
fn compare(settings: &Optimizer) -> (AdamW<Inner>, Reference) {
    let mut network = Small::random("weights");
    let mut optimizer = AdamW::<Inner>::new(settings, &model::infos(&network));
    let mut reference = Reference::new(settings, &network.weights());
    for iter in 0..STEPS {
        reference.step(network.gradients(iter, scale(iter)));
        network = iterate(network, &mut optimizer, iter, settings);
        let found = network.weights().concat();
        let wanted = reference.weights.concat();
        let largest = wanted.iter().map(|w| w.abs()).fold(0.0, f64::max);
        let error =
            found.iter().zip(&wanted).map(|(found, wanted)| (f64::from(*found) - wanted).abs()).fold(0.0, f64::max);
        assert!(error <= 1e-5 * largest, "step {iter}: off by {:.2e}", error / largest);
    }
    (optimizer, reference)
}

fn settings() -> Optimizer {
    Optimizer { beta_2: 0.999, weight_decay: 0.1, decay_on: DecayOn::Linear, ..Optimizer::default() }
}

#[test]
fn adamw_with_and_without_amsgrad() {
    for amsgrad in [None, Some(true)] {
        for grad_clip in [0.0, 1.0] {
            let (optimizer, reference) = compare(&Optimizer { amsgrad, grad_clip, beta_2: 0.95, ..settings() });
            assert_eq!(optimizer.state(0).unwrap().max_moment_2.is_some(), amsgrad == Some(true));
            let shrunk = reference.v.concat().iter().zip(reference.v_max.concat()).filter(|(v, max)| *v < max).count();
            assert!(shrunk > 0, "the spikes are forgotten by the second moment, so AMSGrad is not the same");
            assert!(optimizer.reading().unwrap().is_none());
        }
    }
}

#[test]
fn spam_with_spikes_resets_and_warm_up() {
    let spam = Optimizer {
        optimizer: OptimizerKind::AdamWSpam,
        spam_interval: 60,
        spam_warmup: 15,
        spam_theta: 9.0,
        ..settings()
    };
    let variants = [
        spam.clone(),
        Optimizer { amsgrad: Some(false), ..spam.clone() },
        Optimizer { spam_reset_all: false, ..spam.clone() },
        Optimizer { spam_clip_after: 5, spam_warmup: 0, grad_clip: 0.0, ..spam.clone() },
        Optimizer { spam_interval: 0, spam_spike_z: 4.0, ..spam.clone() },
        Optimizer { spam_reference: true, ..spam.clone() },
        Optimizer { spam_reference: true, spam_theta: 0.0, ..spam.clone() },
    ];
    for settings in variants {
        let (optimizer, reference) = compare(&settings);
        let (clips, strangles) = (settings.spam_theta > 0.0, settings.spam_reference);
        assert_eq!(reference.clipped > 50, clips, "{}", reference.clipped);
        // A second moment without bias correction clips so hard that no spike is left.
        assert_eq!(reference.spikes >= 3, !(clips && strangles), "{}", reference.spikes);
        let reading = optimizer.reading().unwrap().unwrap();
        assert_eq!(reading.spikes, reference.spikes as f64);
        let norm = *reference.norms.back().unwrap();
        assert!((reading.norm - norm).abs() < 1e-5 * norm);
        assert_eq!(optimizer.state(1).unwrap().max_moment_2.is_some(), settings.amsgrad != Some(false));
    }
}

#[test]
fn spam_without_guards_is_adamw() {
    let adamw = Optimizer { amsgrad: Some(true), ..settings() };
    let unguarded = Optimizer {
        optimizer: OptimizerKind::AdamWSpam,
        spam_theta: 0.0,
        spam_spike_z: 0.0,
        spam_interval: 0,
        ..settings()
    };
    let weights = |settings: &Optimizer| {
        let mut network = Small::random("weights");
        let mut optimizer = AdamW::<Inner>::new(settings, &model::infos(&network));
        for iter in 0..60 {
            network = iterate(network, &mut optimizer, iter, settings);
        }
        network.weights()
    };
    assert_eq!(weights(&adamw), weights(&unguarded));
}

#[test]
fn the_rate_rises_again_after_a_reset_and_stays() {
    let settings = Optimizer { optimizer: OptimizerKind::AdamWSpam, spam_interval: 10, spam_warmup: 4, ..settings() };
    let mut network = Small::random("weights");
    let mut optimizer = AdamW::<Inner>::new(&settings, &model::infos(&network));
    let mut factors = Vec::new();
    for iter in 0..20 {
        network = iterate(network, &mut optimizer, iter, &settings);
        factors.push(optimizer.rate_factor());
    }
    let mut expected = vec![1.0; 20];
    expected[9..13].copy_from_slice(&[1e-3, 0.146_446_609, 0.5, 0.853_553_391]);
    expected[19] = 1e-3;
    assert!(factors.iter().zip(&expected).all(|(found, wanted)| (found - wanted).abs() < 1e-9), "{factors:?}");
}

#[test]
fn a_norm_that_is_no_number_is_not_remembered() {
    let settings = Optimizer { optimizer: OptimizerKind::AdamWSpam, spam_interval: 0, ..settings() };
    for bad in [f32::NAN, f32::INFINITY] {
        let mut network = Small::random("weights");
        let mut optimizer = AdamW::<Inner>::new(&settings, &model::infos(&network));
        for iter in 0..12 {
            network = iterate(network, &mut optimizer, iter, &settings);
        }
        let before = optimizer.reading().unwrap();
        assert!(before.unwrap().norm.is_finite());
        let mut gradients = network.gradients(12, 1.0);
        gradients[2] = Some(Tensor::from_floats([bad; 7], &FlexDevice));
        optimizer.guard(gradients);
        assert_eq!(optimizer.reading().unwrap(), before);
    }
}
