//! The loss.

use burn::tensor::{Int, Tensor, backend::Backend};

/// Mean cross-entropy in nats, `[1]`, of `logits` `[batch, length, vocab]` against `targets` `[batch, length]`,
/// each of which is a token: no window is padded, so there is no id to ignore.
pub fn cross_entropy<B: Backend>(logits: Tensor<B, 3>, targets: Tensor<B, 2, Int>) -> Tensor<B, 1> {
    let [batch, length, vocab] = logits.dims();
    let rows = batch * length;
    let logits = logits.reshape([rows, vocab]);
    // ln Σ exp(z) - z_target, both shifted by the row's maximum so that no exponential overflows.
    let shifted = logits.clone() - logits.detach().max_dim(1);
    let target_logits = shifted.clone().gather(1, targets.reshape([rows, 1]));
    let log_normalizer = shifted.exp().sum_dim(1).log();
    (log_normalizer - target_logits).mean()
}
