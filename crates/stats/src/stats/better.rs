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
    /// Every word of the name must be known: `loss_scale` and `acc_step` are not measures of quality.
    pub fn of_name(name: &str) -> Option<Self> {
        const AT_RANK: [&str; 10] = ["acc@", "hit@", "hits@", "hr@", "map@", "mrr@", "ndcg@", "p@", "precision@", "r@"];
        let lower = name.to_ascii_lowercase();
        // Precision and recall at a rank.
        let is_at_rank = |last: &str| AT_RANK.iter().any(|start| last.starts_with(start));
        if lower.rsplit(['/', '.', '_']).next().is_some_and(is_at_rank) {
            return Some(Self::More);
        }
        let (mut direction_of_words, mut is_score) = (None, false);
        for word in words(name) {
            if word == "score" || word == "scores" {
                is_score = true;
                continue;
            }
            let Some(direction) = Self::of_word(&word) else {
                if is_qualifier(&word) {
                    continue;
                }
                return None;
            };
            if direction_of_words.is_some_and(|earlier| earlier != direction) {
                return None;
            }
            direction_of_words = Some(direction);
        }
        direction_of_words.or(is_score.then_some(Self::More))
    }

    /// The better direction of a metric whose name ends with a usual one: `coco/bbox_mAP_50`, `aux_loss`.
    pub fn of_last_word(name: &str) -> Option<Self> {
        let is_number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
        Self::of_word(words(name).iter().rev().find(|word| !is_number(word))?)
    }

    /// The direction of one word, also with a number behind it: `acc1`, `mAP50`.
    fn of_word(word: &str) -> Option<Self> {
        let of = |word: &str| {
            let less = LESS.contains(&word).then_some(Self::Less);
            less.or_else(|| MORE.contains(&word).then_some(Self::More))
        };
        of(word).or_else(|| of(word.trim_end_matches(|char: char| char.is_ascii_digit())))
    }
}

/// The words of a name in lower case; `CrossEntropyLoss` has two, `crossentropy` and `loss`.
fn words(name: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in name.replace('^', "").split(|char: char| !char.is_ascii_alphanumeric()).filter(|part| !part.is_empty())
    {
        let lower = part.to_ascii_lowercase();
        if Better::of_word(&lower).is_some() || is_qualifier(&lower) {
            all.push(lower);
            continue;
        }
        let mut previous = None;
        for char in part.chars() {
            let begins = char.is_ascii_uppercase() && previous.is_some_and(|before: char| !before.is_ascii_uppercase());
            match all.last_mut().filter(|_| previous.is_some() && !begins) {
                Some(word) => word.push(char.to_ascii_lowercase()),
                None => all.push(char.to_ascii_lowercase().to_string()),
            }
            previous = Some(char);
        }
    }
    for (first, second, word) in [("cross", "entropy", "crossentropy"), ("r", "squared", "r2")] {
        while let Some(at) = all.windows(2).position(|pair| pair == [first, second]) {
            all.splice(at..at + 2, [word.to_owned()]);
        }
    }
    all
}

fn is_qualifier(word: &str) -> bool {
    QUALIFIERS.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Words for metrics of which less is better.
const LESS: [&str; 33] = [
    "bpb",
    "bpc",
    "bpd",
    "brier",
    "ce",
    "cer",
    "crossentropy",
    "der",
    "ece",
    "eer",
    "err",
    "error",
    "failure",
    "fid",
    "fid50k",
    "fvd",
    "kid",
    "kl",
    "logloss",
    "loss",
    "lpips",
    "mae",
    "mape",
    "mse",
    "nll",
    "perplexity",
    "ppl",
    "regret",
    "rmse",
    "rmsle",
    "smape",
    "ter",
    "wer",
];

/// Words for metrics of which more is better.
const MORE: [&str; 50] = [
    "acc",
    "accuracy",
    "ap",
    "auc",
    "auprc",
    "auroc",
    "bleu",
    "chrf",
    "correlation",
    "dice",
    "elbo",
    "elo",
    "f1",
    "fb1",
    "fscore",
    "hit",
    "hits",
    "iou",
    "jaccard",
    "kappa",
    "likelihood",
    "map",
    "mcc",
    "meteor",
    "miou",
    "mrr",
    "ndcg",
    "oa",
    "pearson",
    "prec",
    "precision",
    "psnr",
    "r2",
    "recall",
    "ret",
    "return",
    "returns",
    "rew",
    "reward",
    "rouge",
    "rsq",
    "rsquared",
    "sensitivity",
    "spearman",
    "specificity",
    "ssim",
    "success",
    "top1",
    "top5",
    "win",
];

/// Words for the data or the combination of a metric.
const QUALIFIERS: [&str; 50] = [
    "absolute",
    "adj",
    "adjusted",
    "average",
    "avg",
    "bbox",
    "best",
    "binary",
    "coefficient",
    "combined",
    "dev",
    "ep",
    "episode",
    "episodic",
    "epoch",
    "eval",
    "evaluation",
    "f",
    "final",
    "full",
    "last",
    "lm",
    "log",
    "macro",
    "main",
    "masked",
    "mean",
    "micro",
    "multiclass",
    "multiple",
    "overall",
    "rate",
    "rollout",
    "root",
    "segm",
    "square",
    "squared",
    "test",
    "testing",
    "token",
    "total",
    "train",
    "training",
    "val",
    "vali",
    "valid",
    "validate",
    "validation",
    "value",
    "weighted",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_have_a_direction() {
        for name in [
            "loss",
            "val_loss",
            "Test/Loss",
            "eval.ppl",
            "valid_err",
            "train-rmse",
            "loss_epoch",
            "eval/CrossEntropy",
            "CrossEntropyLoss",
            "cross_entropy",
            "fid_score",
            "val_log_loss",
        ] {
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
            "mAP50",
            "eval/MulticlassAccuracy",
            "BinaryF1Score",
            "precision@10",
            "P@1",
            "AverageEpRet",
            "validation_score",
        ] {
            assert_eq!(Better::of_name(name), Some(Better::More), "{name}");
        }
        for name in [
            "lr",
            "entropy",
            "learning_rate",
            "loss_scale",
            "acc_step",
            "loss_acc",
            "step",
            "val",
            "",
            "glossy",
            "accumulate",
            "error_count",
        ] {
            assert_eq!(Better::of_name(name), None, "{name}");
        }
        for name in ["coco/bbox_mAP_50", "imagenet-zeroshot-val-top1", "cifar_acc"] {
            assert_eq!(Better::of_last_word(name), Some(Better::More), "{name}");
        }
        assert_eq!(Better::of_last_word("aux_loss"), Some(Better::Less));
        assert_eq!(Better::of_last_word("loss_scale"), None);
    }
}
