//! `uses: coordinates`.

use super::{Architecture, Model, Optimizer, SizeDims, WorkerMetrics};
use crate::{Conflict, Group, MetricInfo, Param, TaskSpec, Values, metric::metrics, params::params};

params! {
    /// Widths, steps and input of a coordinate check.
    pub struct Widening {
        /// Number of times that the width is doubled, from `d_model` on: 3 trains networks of four widths.
        /// `mlp_hidden` is doubled together with `d_model`, and the number of heads is constant.
        doublings: usize = 3, in 1..=12;
        /// Steps of the optimizer, on the same batch, with a constant learning rate.
        steps: usize = 4, in 1..=1000;
        /// Sequences of the batch.
        batch_size: usize = 4, in 1..=1024, unit "sequences";
        /// Tokens of a sequence; at most `block_size`.
        length: usize = 32, in 4..=16_384, unit "tokens";
        /// Seed of weights and tokens.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
    }
}

/// Trains networks of several widths for a few steps, and fits how activations grow with the width.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coordinates {
    /// The network.
    pub model: Model,
    /// The structure of its blocks.
    pub architecture: Architecture,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Widths and steps.
    pub widening: Widening,
}

metrics! {
    impl Coordinates {
        /// Slope with the largest magnitude over all layers: of the logarithm of the mean magnitude of activations
        /// after the last step over the logarithm of the width.
        SLOPE: One = "slope";
        /// The same slope for the changes of activations by all steps: about 0 if the parametrization gives every
        /// width the same changes, and about 1 where changes grow in proportion to the width.
        SLOPE_CHANGE: One = "slope.change";
        /// The slope of the change of the logits.
        SLOPE_LOGITS: One = "slope.logits";
        /// Cross-entropy of the widest network before the last step.
        LOSS: Nats = "loss";
    }
}

/// The widest network of a recipe.
const MAX_WIDTH: usize = 65_536;

impl Coordinates {
    /// The name of the artifact with a row for each width, step and layer.
    pub const TABLE: &'static str = "coordinates";

    /// The widths, the smallest first.
    pub fn widths(&self) -> impl Iterator<Item = usize> {
        let smallest = self.model.dims().d_model;
        (0..=self.widening.doublings).map(move |doublings| smallest << doublings)
    }

    /// The network's parameters at `width`, which is one of the [`widths`](Self::widths).
    pub fn at(&self, width: usize) -> (Model, Architecture) {
        let SizeDims { d_model, .. } = self.model.dims();
        let model = Model { d_model: Some(width), ..self.model.clone() };
        let mlp_hidden = self.architecture.mlp_hidden.map(|hidden| hidden * (width / d_model.max(1)));
        (model, Architecture { mlp_hidden, ..self.architecture.clone() })
    }
}

impl TaskSpec for Coordinates {
    const NAME: &'static str = "coordinates";
    const ABOUT: &'static str =
        "trains networks of several widths for a few steps and fits how activations grow with the width";
    const HEADLINE: &'static [&'static str] = &["slope.change", "slope.logits"];

    const GROUPS: &'static [&'static [Param]] =
        &[Model::PARAMS, Architecture::PARAMS, Optimizer::PARAMS, Widening::PARAMS];

    const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED, &[WorkerMetrics::MEMORY_PEAK]];

    const CURVES: &'static [&'static str] = &["slope", "slope.change", "slope.logits"];

    fn build(values: &Values) -> Option<Self> {
        Some(Self {
            model: Model::from_values(values)?,
            architecture: Architecture::from_values(values)?,
            optimizer: Optimizer::from_values(values)?,
            widening: Widening::from_values(values)?,
        })
    }

    fn artifacts(_: &Values) -> Vec<String> {
        vec![Self::TABLE.to_owned()]
    }

    fn conflicts(values: &Values) -> Vec<Conflict> {
        let Some(coordinates) = Self::build(values) else { return Vec::new() };
        if coordinates.model.init.is_some() {
            return vec![Conflict {
                params: vec!["init"],
                message: "`init` is a network of one width".into(),
                advice: "remove `init`, and give the dimensions of the smallest network".into(),
            }];
        }
        let mut conflicts = coordinates.model.conflicts();
        let size = coordinates.model.dims();
        conflicts.extend(coordinates.architecture.conflicts(size, false));
        conflicts.extend(coordinates.optimizer.conflicts());
        conflicts.extend(coordinates.optimizer.conflicts_with(&coordinates.architecture.block(size)));
        let Widening { doublings, length, .. } = coordinates.widening;
        if size.d_model > MAX_WIDTH >> doublings {
            conflicts.push(Conflict {
                params: vec!["doublings", "d_model"],
                message: format!("`d_model: {}`, doubled {doublings} times, exceeds {MAX_WIDTH}", size.d_model),
                advice: "reduce `doublings`, or begin with a smaller `d_model`".into(),
            });
        }
        if length > size.block_size {
            conflicts.push(Conflict {
                params: vec!["length", "block_size"],
                message: format!("`length: {length}` exceeds `block_size: {}`", size.block_size),
                advice: "reduce `length`, or raise `block_size`".into(),
            });
        }
        conflicts
    }
}
