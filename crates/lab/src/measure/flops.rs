//! Floating-point operations of training, counted from a network's dimensions, by mechanism.

use sweep_job::tasks::{AttentionKind, BlockSpec, CrossProjection};

use crate::model::GptDims;

/// Floating-point operations of training on one token of a sequence of the maximum length: two for each multiplication in the matrix
/// products of the forward pass, and of every gradient that a training step needs.
///
/// The sum is six for each weight in a product, and for each pair of token and width in the scores of attention and in its weighted sums of
/// values, over whole sequences (as the PaLM paper counts, with the token table counted as the output layer that it is). Not counted are
/// redundant operations (repetitions by checkpointing, and the last block's output to a next block), and running sums and means, which need
/// no product, although some are computed as one.
pub fn flops_per_token(dims: &GptDims) -> f64 {
    let head = trained(dims.vocab_size * dims.d_model);
    let blocks = (1..=dims.n_layer).map(|number| block(dims, number == dims.n_layer));
    2.0 * (head + blocks.sum::<usize>()) as f64
}

/// Multiplications of a product of `size` multiplications, and of the gradients of both its factors.
const fn trained(size: usize) -> usize {
    3 * size
}

/// Multiplications of a product of `size` multiplications, and of the gradient of only one factor.
const fn trained_on_one_side(size: usize) -> usize {
    2 * size
}

/// Multiplications for one token in a block, `is_last` if no other block follows it.
fn block(dims: &GptDims, is_last: bool) -> usize {
    let (d, heads, length, hidden) = (dims.d_model, dims.n_head, dims.block_size, dims.mlp_hidden());
    // The other mechanisms multiply no matrices: they scale, move or drop numbers.
    let BlockSpec {
        attention,
        r_mlp,
        gate,
        cross,
        recip,
        experts,
        parts,
        mlp_hidden: _,
        reciprocal: _,
        ra_ct: _,
        kv_prune: _,
    } = &dims.block;
    let mut sum = match attention {
        // Queries and output; keys and values; scores and context.
        AttentionKind::Standard | AttentionKind::Folded { .. } => {
            let shared = d / heads * parts.kv_heads(heads);
            trained(2 * d * d + 2 * d * shared + 2 * length * d)
        }
        // Every head's scores and context are as wide as the latent vectors, to which and from which it has its own maps.
        AttentionKind::Latent { dim } => trained(2 * d * d + 4 * d * dim + 2 * length * heads * dim),
    };
    // Only the experts that a token chooses, and the router.
    let mlps = experts.map_or(1, |experts| experts.per_token);
    sum += trained(if parts.glu { 3 } else { 2 } * d * hidden * mlps);
    sum += trained(d * experts.map_or(0, |experts| experts.count));
    if let Some(spec) = r_mlp.filter(|spec| spec.mixer) {
        sum += trained(spec.low * spec.low);
    }
    if let Some(gate) = gate.filter(|_| !is_last) {
        sum += trained(hidden * gate.dim + gate.dim * heads);
    }
    if let Some(cross) = cross {
        let (projections, width) = match cross.projection {
            CrossProjection::Full => (hidden * hidden, hidden),
            CrossProjection::Bottleneck { dim } => (2 * hidden * dim, dim),
        };
        // No gradient flows through the attention weights along which it gathers.
        sum += trained(projections) + trained_on_one_side(length * width);
    }
    if let (Some(_), AttentionKind::Latent { dim }) = (recip, attention) {
        // No gradient flows through the keys either. The product that leads back to keys is for the next block.
        sum += trained_on_one_side(hidden * dim) + if is_last { 0 } else { trained(hidden * dim) };
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;
    use sweep_job::{Task, Value, Values, tasks::Ablation};

    use super::*;
    use crate::model::VOCAB_UINT16;

    /// Output of `scripts/count-flops.py`: operations that PyTorch 2.15's `FlopCounterMode` counted in the forward and
    /// backward pass of networks of GPT-2's shape (12 blocks, 12 heads, width 768, 1024 tokens, 50,304 in the table),
    /// which that script implements in PyTorch independently, divided by the 1024 tokens.
    const COUNTED: &str = include_str!("../../tests/golden/flops.json");

    #[derive(Deserialize)]
    struct Counted {
        /// Parameters beside the size.
        given: Values,
        flops: f64,
    }

    /// The dimensions of a network of GPT-2's shape with these parameters.
    fn dims(parameters: Values) -> GptDims {
        let info = Task::info("train").unwrap();
        let mut values = Values::from([("model".to_owned(), Value::Text("gpt2".to_owned()))]);
        values.extend(parameters);
        let Some(Task::Train(train)) = info.build(&info.complete(values)) else { panic!("a training") };
        GptDims::new(&train.model, &train.architecture, VOCAB_UINT16).unwrap()
    }

    #[test]
    fn operations_are_those_that_an_independent_counter_counts() {
        let cases: Vec<Counted> = serde_json::from_str(COUNTED).unwrap();
        let mut steps = BTreeSet::new();
        for Counted { given, flops } in cases {
            assert_eq!(flops_per_token(&dims(given.clone())), flops, "{given:?}");
            steps.extend(given.get("ablation").map(ToString::to_string));
        }
        let dense = flops_per_token(&dims(Values::new()));
        let experts = Values::from([("experts".to_owned(), Value::Int(8))]);
        // For each block another MLP, because a token chooses two, and a router.
        let more = 12.0 * 6.0 * (2.0 * 768.0 * 3072.0 + 768.0 * 8.0);
        assert_eq!(flops_per_token(&dims(experts)), dense + more);
        for step in Ablation::ALL {
            assert!(steps.contains(step.word()), "step {step} is not counted");
        }
    }
}
