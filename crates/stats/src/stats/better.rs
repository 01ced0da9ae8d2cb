//! The better direction of a metric.

use sweep_job::Unit;

/// The better direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Smaller values are better.
    Less,
    /// Larger values are better.
    More,
}

impl Better {
    /// The words in recipes.
    pub const WORDS: &'static [(&'static str, Option<Self>)] =
        &[("min", Some(Self::Less)), ("max", Some(Self::More)), ("none", None)];

    /// The better direction that the unit of a metric implies.
    pub fn of(unit: Unit) -> Option<Self> {
        match unit.base() {
            Unit::Nats | Unit::Seconds | Unit::Bytes => Some(Self::Less),
            rate if rate.is_rate() => Some(Self::More),
            _ => None,
        }
    }

    /// The better direction of a metric that a program has named, if its name is a usual one: `loss`, `val_acc`, `test/f1`.
    ///
    /// Every word of the name must be known: `loss_scale` and `acc_step` are no measures of quality.
    pub fn of_name(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let mut direction_of_words = None;
        for word in lower.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
            let direction = if LESS.contains(&word) {
                Self::Less
            } else if MORE.contains(&word) {
                Self::More
            } else if QUALIFIERS.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            } else {
                return None;
            };
            if direction_of_words.is_some_and(|earlier| earlier != direction) {
                return None;
            }
            direction_of_words = Some(direction);
        }
        direction_of_words
    }
}

/// Words for metrics of which less is better.
const LESS: [&str; 21] = [
    "loss",
    "nll",
    "ce",
    "crossentropy",
    "perplexity",
    "ppl",
    "bpb",
    "bpc",
    "bpd",
    "mse",
    "rmse",
    "mae",
    "mape",
    "err",
    "error",
    "wer",
    "cer",
    "fid",
    "ece",
    "brier",
    "regret",
];

/// Words for metrics of which more is better.
const MORE: [&str; 23] = [
    "acc", "accuracy", "top1", "top5", "auc", "auroc", "auprc", "f1", "bleu", "rouge", "meteor", "miou", "iou", "dice",
    "recall", "psnr", "ssim", "rew", "reward", "return", "returns", "elo", "r2",
];

/// Words that say of which data, or how a metric was combined.
const QUALIFIERS: [&str; 24] = [
    "train",
    "training",
    "val",
    "valid",
    "validation",
    "dev",
    "test",
    "testing",
    "eval",
    "evaluation",
    "final",
    "best",
    "last",
    "mean",
    "avg",
    "average",
    "total",
    "epoch",
    "episode",
    "ep",
    "rollout",
    "episodic",
    "macro",
    "micro",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_have_a_direction() {
        for name in ["loss", "val_loss", "Test/Loss", "eval.ppl", "valid_err", "train-rmse", "loss_epoch"] {
            assert_eq!(Better::of_name(name), Some(Better::Less), "{name}");
        }
        for name in [
            "acc",
            "test_accuracy",
            "acc@1",
            "eval/f1_macro",
            "episode_reward",
            "rollout/ep_rew_mean",
            "top5_acc",
            "best_val_acc",
        ] {
            assert_eq!(Better::of_name(name), Some(Better::More), "{name}");
        }
        for name in
            ["lr", "loss_scale", "acc_step", "loss_acc", "step", "val", "", "glossy", "accumulate", "error_count"]
        {
            assert_eq!(Better::of_name(name), None, "{name}");
        }
    }
}
