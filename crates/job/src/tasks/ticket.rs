//! The parameters of lottery tickets: the mask of another network, and other first weights.

use super::{MaskPlan, Model, Prune};
use crate::{Conflict, Path, params::params};

params! {
    /// The mask of another network, under which a training begins again: a lottery ticket (Frankle and Carbin 2019).
    pub struct Ticket {
        /// Folder with a network of the same dimensions, as `save` writes it. The weights of linear layers that are 0 in it are
        /// pruned from the first iteration on, with their gradients and moments. The training begins with the weights of `init`
        /// or of `seed`, not with those of this network. A `prune` with a ramp may prune further weights.
        mask: Option<Path> = None;
        /// Fraction of the prunable weights that `mask` prunes: the weights with the smallest magnitudes in its
        /// network, over all layers, and at least all weights that are 0.
        mask_sparsity: f64 = 0.0, in 0.0..=0.99;
        /// Draw initial weights independent of `seed`, for a comparison of a lottery ticket with random weights under
        /// the same mask. The order of the data and dropout remain those of `seed`.
        fresh_weights: bool = false;
    }
}

impl Ticket {
    /// Settings that have no effect, or contradict those of the network and of the pruning.
    pub(super) fn conflicts(&self, prune: &Prune, model: &Model) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        if self.mask.is_none() && self.mask_sparsity > 0.0 {
            conflicts.push(Conflict {
                params: vec!["mask_sparsity"],
                message: "`mask_sparsity` has no effect without `mask`".into(),
                advice: "write `mask`, or remove `mask_sparsity`".into(),
            });
        }
        if self.fresh_weights && model.init.is_some() {
            conflicts.push(Conflict {
                params: vec!["fresh_weights", "init"],
                message: "`fresh_weights` has no effect with `init`, whose folder has the weights".into(),
                advice: "remove `fresh_weights` or `init`".into(),
            });
        }
        if self.mask.is_none() {
            return conflicts;
        }
        match prune.prune.plan() {
            MaskPlan::Ramp if self.mask_sparsity > prune.target() => conflicts.push(Conflict {
                params: vec!["mask_sparsity", "sparsity"],
                message: format!(
                    "`mask_sparsity: {}` prunes more than the target of `prune: {}`, {}",
                    self.mask_sparsity,
                    prune.prune,
                    prune.target()
                ),
                advice: "increase `sparsity`, or write `prune: none`".into(),
            }),
            MaskPlan::Never | MaskPlan::Ramp => {}
            MaskPlan::Start | MaskPlan::Replace => conflicts.push(Conflict {
                params: vec!["mask", "prune"],
                message: format!("`mask` conflicts with `prune: {}`, which chooses its own first mask", prune.prune),
                advice: "remove `mask`, or write `prune: none`".into(),
            }),
        }
        conflicts
    }
}

#[cfg(test)]
mod tests {
    use crate::{Task, Value, Values};

    fn conflicts(given: &[(&str, Value)]) -> Vec<&'static str> {
        let info = Task::info("train").unwrap();
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let found = info.conflicts(&info.complete(given.collect::<Values>()));
        found.into_iter().map(|conflict| conflict.params[0]).collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn settings_without_a_mask_and_masks_beside_others() {
        let mask = ("mask", text("network"));
        let sparsity = |value| ("mask_sparsity", Value::Float(value));
        let fresh = ("fresh_weights", Value::Bool(true));
        let none: [&str; 0] = [];
        assert_eq!(conflicts(std::slice::from_ref(&mask)), none);
        assert_eq!(conflicts(&[mask.clone(), sparsity(0.8), fresh.clone()]), none);
        assert_eq!(conflicts(&[mask.clone(), ("init", text("early"))]), none);
        assert_eq!(conflicts(&[sparsity(0.8)]), ["mask_sparsity"]);
        assert_eq!(conflicts(std::slice::from_ref(&fresh)), none, "a training with other weights needs no mask");
        assert_eq!(conflicts(&[fresh, ("init", text("early"))]), ["fresh_weights"]);
        assert_eq!(conflicts(&[mask.clone(), ("prune", text("magnitude")), sparsity(0.4)]), none);
        assert_eq!(conflicts(&[mask.clone(), ("prune", text("magnitude")), sparsity(0.6)]), ["mask_sparsity"]);
        assert_eq!(conflicts(&[mask, ("prune", text("snip"))]), ["mask"]);
    }
}
