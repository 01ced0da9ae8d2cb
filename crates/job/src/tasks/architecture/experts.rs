//! Mixtures of experts.

use serde::{Deserialize, Serialize};

use super::{Architecture, BlockSpec, Mechanism};
use crate::Conflict;

/// A mixture of experts in place of a block's MLP (Shazeer et al. 2017; in the form of Mixtral, Jiang et al. 2024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertsSpec {
    /// Number of MLPs.
    pub count: usize,
    /// MLPs that a token passes through.
    pub per_token: usize,
}

impl ExpertsSpec {
    /// Experts that a token chooses if nothing else is given, as in Mixtral.
    const PER_TOKEN: usize = 2;
}

impl Architecture {
    /// The mixture of experts that the parameters select.
    pub(super) fn experts(&self) -> Option<ExpertsSpec> {
        self.experts.map(|count| ExpertsSpec {
            count,
            per_token: self.experts_per_token.unwrap_or(ExpertsSpec::PER_TOKEN.min(count)),
        })
    }
}

impl BlockSpec {
    /// The first reason why a block cannot have these experts.
    pub(super) fn misfit_of_experts(&self) -> Option<Conflict> {
        let ExpertsSpec { count, per_token } = self.experts?;
        if count == 0 || per_token == 0 || per_token > count {
            return Some(Conflict {
                params: vec!["experts_per_token", "experts"],
                message: format!("a token cannot choose {per_token} of {count} experts"),
                advice: format!("choose an `experts_per_token` from 1 to {}, or more `experts`", count.max(1)),
            });
        }
        // These act on the hidden numbers of a block's only MLP.
        let of_one_mlp = [Mechanism::Gate, Mechanism::Cross, Mechanism::Recip, Mechanism::RMlp];
        let found = self.mechanisms().into_iter().find(|mechanism| of_one_mlp.contains(mechanism))?;
        Some(Conflict {
            params: vec!["experts"],
            message: format!("`experts` does not combine with {found}, which needs one MLP in a block"),
            advice: "remove `experts`, or choose an architecture without it".into(),
        })
    }
}
