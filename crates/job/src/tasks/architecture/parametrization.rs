//! The dependence of initial weights, learning rates and factors on the width.

use super::{Architecture, AttentionKind, BlockSpec};
use crate::{
    Conflict,
    params::choice,
    tasks::{Optimizer, OptimizerKind},
};

choice! {
    /// The dependence of initial weights, learning rates and factors on the width of a network.
    pub enum Parametrization {
        /// No dependence, except of attention's scores, which are divided by the square root of a head's width.
        Standard = "standard",
        /// Maximal update parametrization (Yang et al. 2022, "Tensor Programs V", table 8), in which the best learning rate is about
        /// the same for all widths.
        Mup = "mup",
    }
}

impl Architecture {
    /// The width at which the maximal update parametrization equals the standard parametrization, if it is selected.
    pub(super) fn mup_base_width(&self) -> Option<usize> {
        self.mup_base_width.filter(|_| self.parametrization == Parametrization::Mup)
    }

    /// The first conflict of the parameters of the parametrization.
    pub(super) fn conflict_of_parametrization(&self) -> Option<Conflict> {
        match (self.parametrization, self.mup_base_width) {
            (Parametrization::Mup, None) => Some(Conflict {
                params: vec!["parametrization", "mup_base_width"],
                message:
                    "`parametrization: mup` needs the width at which it has the standard weights and learning rates"
                        .into(),
                advice: "write `mup_base_width`, such as the `d_model` of the network whose learning rate was tuned"
                    .into(),
            }),
            (Parametrization::Standard, Some(_)) => Some(Conflict {
                params: vec!["mup_base_width"],
                message: "`mup_base_width` has no effect here".into(),
                advice: "write `parametrization: mup`, or remove `mup_base_width`".into(),
            }),
            _ => None,
        }
    }
}

impl BlockSpec {
    /// The first reason why a block has no maximal update parametrization although it is selected.
    pub(super) fn misfit_of_parametrization(&self) -> Option<Conflict> {
        self.parts.mup_base_width?;
        let found = match (self.attention, self.mechanisms().first()) {
            (AttentionKind::Latent { .. }, _) => "multi-head latent attention".to_owned(),
            (_, Some(mechanism)) => mechanism.to_string(),
            (_, None) => return None,
        };
        Some(Conflict {
            params: vec!["parametrization"],
            message: format!("`parametrization: mup` is not defined for {found}"),
            advice: "remove `parametrization` and `mup_base_width`, or choose an architecture without it".into(),
        })
    }

    /// The conflict of the maximal update parametrization with an optimizer whose steps scale in another way.
    pub fn misfit_of_optimizer(&self, optimizer: &Optimizer) -> Option<Conflict> {
        self.parts.mup_base_width?;
        let kind = optimizer.optimizer;
        let is_adam = matches!(kind, OptimizerKind::AdamW | OptimizerKind::AdamWSpam);
        (!is_adam).then(|| Conflict {
            params: vec!["optimizer", "parametrization"],
            message: format!("the learning rates of `parametrization: mup` are not defined for `optimizer: {kind}`"),
            advice: "write `optimizer: adamw` or `optimizer: adamwspam`, or remove `parametrization`".into(),
        })
    }
}
