//! Step 1 of the ablation: pruning while training reaches its schedule, and pruned weights are 0 (ratio-ablation,
//! section 7).

use burn::backend::Autodiff;
use sweep_job::tasks::{Prune, PruneMethod, StepPruning};

use super::{Assertion, checker::Checker};
use crate::{
    LabError,
    backend::Compute,
    device::read::host,
    model::{self, Network},
    optim,
    prune::{Pruner, prunable},
};

/// Iterations, past the ramp's end and one step beyond the last choice of the mask.
const ITERATIONS: usize = 10;
/// Largest distance of the sparsity from its schedule.
const TOLERANCE: f64 = 0.005;

/// AdamWPrune in its first variant, as the step has it (ratio-ablation, section 5), on a schedule as short as the check: 500
/// iterations are one, but for the choices of the mask, of which there are four.
fn settings(pruning: &StepPruning) -> Prune {
    Prune {
        prune: PruneMethod::Bitter0,
        sparsity: pruning.sparsity,
        prune_warmup: Some(pruning.warmup / 500),
        prune_ramp_end: Some(pruning.ramp_end / 500),
        prune_every: 2,
        ..Prune::default()
    }
}

impl<B: Compute> Checker<'_, B> {
    pub(super) fn pruning<N: Network<Autodiff<B>>>(
        &self,
        mut network: N,
        pruning: &StepPruning,
    ) -> Result<Vec<Assertion>, LabError> {
        let settings = settings(pruning);
        let mut optimizer = self.spam();
        let mut pruner = Pruner::<B>::new(&settings, &self.parameters);
        let mut maximum = (0.0_f64, 0, 0.0, 0.0);
        let mut updates = 0;
        let mut target = 0.0;
        for iter in 0..ITERATIONS {
            let gradients = pruner.mask_gradients(self.gradients(&network, 0.0));
            let (gradients, _) = optimizer.guard(gradients);
            let gradients = optim::clip_global_norm(gradients, 1.0);
            network = optimizer.step::<Autodiff<B>, _>(network, gradients, self.expected.lr)?;
            network = pruner.apply::<Autodiff<B>, _>(network, &mut optimizer);
            if settings.updates_at(iter, ITERATIONS) {
                target = settings.target_at(iter, ITERATIONS);
                pruner.choose::<Autodiff<B>, _>(&network, &optimizer, target)?;
                network = pruner.apply::<Autodiff<B>, _>(network, &mut optimizer);
                updates += 1;
            }
            let sparsity = crate::prune::sparsity::<Autodiff<B>, _>(&settings, &network)?;
            let distance = (sparsity - target).abs();
            if distance > maximum.0 || distance.is_nan() {
                maximum = (distance, iter, sparsity, target);
            }
        }
        let (distance, iter, sparsity, expected_sparsity) = maximum;
        let problem = (distance.is_nan() || distance > TOLERANCE).then(|| {
            format!(
                "{sparsity:.4} of the weights are 0 after iteration {iter}, but the schedule requires \
                 {expected_sparsity:.4}"
            )
        });
        let finding = format!("{target} after {updates} masks, at most {distance:.1e} beside the schedule");
        let schedule = Assertion::unless("sparsity-schedule", problem, finding);

        let values = model::values::<Autodiff<B>, _>(&network);
        let (mut pruned_count, mut alive_count) = (0_usize, 0_usize);
        for index in prunable(&settings, &self.parameters) {
            let Some(state) = optimizer.state(index) else { continue };
            let (moment_1, moment_2) = (host(state.moment_1.clone())?, host(state.moment_2.clone())?);
            for ((weight, first), second) in host(values[index].clone())?.into_iter().zip(moment_1).zip(moment_2) {
                if weight == 0.0 {
                    pruned_count += 1;
                    alive_count += usize::from(first != 0.0 || second != 0.0);
                }
            }
        }
        let problem = (alive_count > 0 || pruned_count == 0)
            .then(|| format!("{alive_count} of {pruned_count} pruned weights have moments that are not 0"));
        Ok(vec![
            schedule,
            Assertion::unless("pruned-state", problem, format!("{pruned_count} weights and their moments are 0")),
        ])
    }
}
