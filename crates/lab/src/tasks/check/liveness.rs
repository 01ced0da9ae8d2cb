//! Every mechanism has an effect, and none while its coupling is 0.

use sweep_job::tasks::Mechanism;

use super::{
    Assertion,
    checker::Checker,
    compare::{largest, largest_difference},
};
use crate::{LabError, backend::Compute, model::Network};

/// The least change of the logits, relative to the largest of them, that is not rounding.
const MIN_CHANGE: f32 = 1e-4;
/// The largest change that is rounding.
const ROUNDING: f32 = 1e-5;

impl<B: Compute> Checker<'_, B> {
    /// Taking a mechanism away changes the logits, but not while the coupling scale is 0, except for RA-CT, which it does
    /// not reach.
    pub(super) fn liveness<N: Network<B>>(&self, network: &N) -> Result<Vec<Assertion>, LabError> {
        let mechanisms = self.expected.dims.block.mechanisms();
        if mechanisms.is_empty() {
            return Ok(Vec::new());
        }
        let (mut problems, mut findings) = (Vec::new(), Vec::new());
        for scale in [1.0, 0.0] {
            let logits = self.whole(&network.clone().coupled(scale))?;
            for mechanism in self.alive(&mechanisms) {
                let reduced_logits = self.whole(&network.clone().without(mechanism).coupled(scale))?;
                let change = largest_difference(&logits, &reduced_logits) / largest(&logits).max(1.0);
                let must_change = scale == 1.0 || !mechanism.is_coupled();
                if must_change && (change.is_nan() || change < MIN_CHANGE) {
                    problems.push(format!("without {mechanism} the logits change by {change:.3e} at scale {scale}"));
                } else if !must_change && (change.is_nan() || change > ROUNDING) {
                    problems.push(format!("without {mechanism} the logits change by {change:.3e} at scale 0"));
                }
                findings.push(format!("{mechanism} {change:.1e} at scale {scale}"));
            }
        }
        let problem = (!problems.is_empty()).then(|| problems.join(", "));
        Ok(vec![Assertion::unless("liveness", problem, findings.join(", "))])
    }

    fn whole<N: Network<B>>(&self, network: &N) -> Result<Vec<f32>, LabError> {
        self.logits(network, &self.batch.inputs, self.expected.batch[1])
    }

    /// Returns the `mechanisms` that can have an effect: a gate needs a next block.
    fn alive(&self, mechanisms: &[Mechanism]) -> Vec<Mechanism> {
        let is_single = self.expected.dims.n_layer == 1;
        mechanisms.iter().copied().filter(|mechanism| !(is_single && *mechanism == Mechanism::Gate)).collect()
    }
}
