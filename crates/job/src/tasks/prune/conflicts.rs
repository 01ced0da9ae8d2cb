//! Settings of pruning that contradict each other, or have no effect.

use super::{MaskPlan, Prune, PrunePattern, ScorePrecision};
use crate::Conflict;

impl Prune {
    /// Conflicts between the parameters in a training of `iters` iterations.
    pub(in crate::tasks) fn conflicts(&self, iters: usize) -> Vec<Conflict> {
        let mut conflicts = self.score_conflicts();
        if self.prune.plan() == MaskPlan::Ramp && self.last_update(iters).is_none() {
            let (warmup, end) = self.ramp(iters);
            conflicts.push(Conflict {
                params: vec!["prune_ramp_end", "prune_every", "prune_warmup", "iters"],
                message: format!(
                    "the target sparsity is never reached: the ramp extends from iteration {warmup} to {end}, and no mask \
                     update lies between its end and iteration {iters}"
                ),
                advice: "reduce `prune_ramp_end` or `prune_every`, or increase `iters`".into(),
            });
        }
        let end = self.ramp(iters).1.min(iters);
        if self.prune.plan() == MaskPlan::Replace && self.prune_every >= end {
            conflicts.push(Conflict {
                params: vec!["prune_every", "prune_ramp_end", "iters"],
                message: format!(
                    "the masks of `prune: {}` are never updated: the first update would be at iteration {}, and there is none \
                     from iteration {end} on",
                    self.prune, self.prune_every
                ),
                advice: "reduce `prune_every`, or increase `prune_ramp_end` or `iters`".into(),
            });
        }
        conflicts
    }

    /// Conflicts of one computation of masks, whatever the schedule.
    pub(in crate::tasks) fn score_conflicts(&self) -> Vec<Conflict> {
        /// Half of the smallest positive f16; smaller values become 0.
        const LEAST_F16: f64 = 1.0 / 33_554_432.0;

        let mut conflicts = Vec::new();
        if self.score_precision == ScorePrecision::F16
            && self.prune.score().has_epsilon()
            && self.score_epsilon <= LEAST_F16
        {
            conflicts.push(Conflict {
                params: vec!["score_precision", "score_epsilon", "prune"],
                message: format!(
                    "`score_epsilon: {:e}` is 0 in half precision, so scores of `prune: {}` could be 0, infinite or NaN",
                    self.score_epsilon, self.prune
                ),
                advice: "write `score_epsilon: 1e-5`, or compute scores with `score_precision: f32`".into(),
            });
        }
        conflicts.extend(self.pattern_conflicts());
        conflicts.extend(self.calibration_conflict());
        conflicts.extend(self.output_conflicts());
        conflicts.extend(self.start_conflicts());
        conflicts
    }

    /// Calibration batches that nothing reads.
    fn calibration_conflict(&self) -> Option<Conflict> {
        let is_given = self.calibration_batches != Self::default().calibration_batches;
        (is_given && !self.prune.calibrates()).then(|| Conflict {
            params: vec!["calibration_batches", "prune"],
            message: format!("`calibration_batches` has no effect with `prune: {}`", self.prune),
            advice: "write `prune: wanda` or `prune: snip`, or remove `calibration_batches`".into(),
        })
    }

    /// Settings of ramps and thresholds, where masks are chosen in another way.
    fn start_conflicts(&self) -> Vec<Conflict> {
        let default = Self::default();
        let ramp = [
            ("prune_warmup", self.prune_warmup.is_some()),
            ("prune_schedule", self.prune_schedule != default.prune_schedule),
        ];
        let updates = [
            ("prune_ramp_end", self.prune_ramp_end.is_some()),
            ("prune_every", self.prune_every != default.prune_every),
        ];
        let precision = [("score_precision", self.score_precision != default.score_precision)];
        let thresholds = [
            ("threshold", self.threshold != default.threshold),
            ("sample_fraction", self.sample_fraction != default.sample_fraction),
            ("prune_update", self.prune_update != default.prune_update),
        ];
        let (idle, reason) = match self.prune.plan() {
            MaskPlan::Never | MaskPlan::Ramp => return Vec::new(),
            // Products of weights and gradients are too small for half precision.
            MaskPlan::Start => (
                [&ramp[..], &updates, &precision].concat(),
                "chooses the mask once, before the first iteration, in single precision",
            ),
            MaskPlan::Replace => (
                [&ramp[..], &precision, &thresholds].concat(),
                "draws masks before the first iteration, and replaces weights layer by layer",
            ),
        };
        let given = idle.into_iter().filter(|(_, is_given)| *is_given);
        let conflict = |(name, _): (&'static str, bool)| Conflict {
            params: vec![name, "prune"],
            message: format!("`{name}` has no effect with `prune: {}`, which {reason}", self.prune),
            advice: format!("remove `{name}`, or write `prune: magnitude`"),
        };
        given.map(conflict).collect()
    }

    /// Settings that thresholds by output cannot have.
    fn output_conflicts(&self) -> Vec<Conflict> {
        let default = Self::default();
        if !self.prune.by_output() {
            return Vec::new();
        }
        let given = [
            ("threshold", self.threshold != default.threshold),
            ("sample_fraction", self.sample_fraction != default.sample_fraction),
            ("prune_update", self.prune_update != default.prune_update),
            ("score_precision", self.score_precision != default.score_precision),
            ("prune_tied_head", self.prune_tied_head),
        ];
        // A pattern reports all but the precision by itself.
        let is_reported = |name: &str| self.prune_pattern != PrunePattern::None && name != "score_precision";
        let idle = given.into_iter().filter(|(name, is_given)| *is_given && !is_reported(name));
        let conflict = |(name, _): (&'static str, bool)| Conflict {
            params: vec![name, "prune"],
            message: format!(
                "`{name}` conflicts with `prune: {}`, which prunes the linear layers output by output",
                self.prune
            ),
            advice: format!("remove `{name}`, or write `prune: magnitude`"),
        };
        idle.map(conflict).collect()
    }

    /// Settings that a pattern determines, or that it cannot have.
    fn pattern_conflicts(&self) -> Vec<Conflict> {
        let default = Self::default();
        let pattern = self.prune_pattern;
        if pattern == PrunePattern::None {
            return Vec::new();
        }
        let given = [
            ("sparsity", self.sparsity != default.sparsity && self.sparsity != self.target()),
            ("threshold", self.threshold != default.threshold),
            ("sample_fraction", self.sample_fraction != default.sample_fraction),
            ("prune_update", self.prune_update != default.prune_update),
            ("prune_tied_head", self.prune_tied_head),
        ];
        let mut conflicts: Vec<Conflict> = given
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(name, _)| Conflict {
                params: vec![name, "prune_pattern"],
                message: format!(
                    "`{name}` conflicts with `prune_pattern: {pattern}`, which chooses weights group by group"
                ),
                advice: format!("remove `{name}`, or write `prune_pattern: none`"),
            })
            .collect();
        if matches!(self.prune.plan(), MaskPlan::Never | MaskPlan::Replace) || self.prune.by_layer() {
            conflicts.push(Conflict {
                params: vec!["prune_pattern", "prune"],
                message: format!("`prune_pattern: {pattern}` has no meaning with `prune: {}`", self.prune),
                advice: "write `prune: magnitude`, or another score that compares all layers".into(),
            });
        }
        conflicts
    }
}
