//! The loss.

use burn::tensor::{Int, Tensor, backend::Backend};
use sweep_job::tasks::Optimizer;

/// The loss of a training and the minimized objective, `[1]` each.
#[derive(Debug, Clone)]
pub struct Objective<B: Backend> {
    /// The mean cross-entropy in nats.
    pub cross_entropy: Tensor<B, 1>,
    /// The cross-entropy and the auxiliary losses.
    pub total: Tensor<B, 1>,
}

/// Factors of the auxiliary losses, see the parameters of an optimizer; the default is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Auxiliary {
    /// Factor of the mean square of the logits' normalizers.
    pub z_loss: f64,
    /// Factor of the loss that balances the choices of experts.
    pub balance_loss: f64,
}

impl Auxiliary {
    /// The factors that `settings` give.
    pub fn new(settings: &Optimizer) -> Self {
        Self { z_loss: settings.z_loss, balance_loss: settings.balance_loss }
    }
}

/// Mean cross-entropy in nats, `[1]`, of `logits` `[batch, length, vocab]` against `targets` `[batch, length]`,
/// each of which is a token: no window is padded, so there is no id to ignore.
pub fn cross_entropy<B: Backend>(logits: Tensor<B, 3>, targets: Tensor<B, 2, Int>) -> Tensor<B, 1> {
    let [batch, length, vocab] = logits.dims();
    let (losses, _) = losses_and_normalizers(logits.reshape([batch * length, vocab]), targets);
    losses.mean()
}

/// The mean cross-entropy of `logits` `[rows, vocab]` against `targets` `[batch, length]`, and with it `z_loss` times the mean square
/// of the logarithm of the sum of a row's exponentials (Chowdhery et al., "PaLM", 2022, section 5).
pub(super) fn objective<B: Backend>(logits: Tensor<B, 2>, targets: Tensor<B, 2, Int>, z_loss: f64) -> Objective<B> {
    let (losses, normalizers) = losses_and_normalizers(logits, targets);
    let cross_entropy = losses.mean();
    let total = cross_entropy.clone() + (normalizers.clone() * normalizers).mean() * z_loss;
    Objective { cross_entropy, total }
}

/// The cross-entropy of each row, and the logarithm of the sum of its exponentials, `[rows, 1]` each.
fn losses_and_normalizers<B: Backend>(
    logits: Tensor<B, 2>,
    targets: Tensor<B, 2, Int>,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let [rows, _] = logits.dims();
    let maxima = logits.clone().detach().max_dim(1);
    // ln Σ exp(z) - z_target, both shifted by the row's maximum so that no exponential overflows.
    let shifted = logits - maxima.clone();
    let target_logits = shifted.clone().gather(1, targets.reshape([rows, 1]));
    let log_normalizer = shifted.exp().sum_dim(1).log();
    (log_normalizer.clone() - target_logits, log_normalizer + maxima)
}
