//! Axes that a first recipe suggests: parameters that a person would vary, with values that make sense.

use serde_json::Value as Json;

use super::{Parameter, Style, forms::axis_name, scalar};
use crate::recipe::is_name;

/// Maximum number of axes that are suggested: their values multiply.
const MAX_AXES: usize = 3;
/// Maximum number of choices that are listed.
const MAX_CHOICES: usize = 6;
/// Parameters that users usually vary, by words in their names, in the order of interest.
const SUBJECTS: [(&[&str], Subject); 12] = [
    (&["learning_rate", "lr", "base_lr", "max_lr", "step_size", "eta", "shrinkage"], Subject::Scale),
    (&["optimizer", "optim", "opt", "algorithm", "algo", "solver"], Subject::Choice),
    (
        &["model", "arch", "architecture", "backbone", "activation", "act", "loss", "norm", "scheduler", "schedule"],
        Subject::Choice,
    ),
    (&["batch_size", "batchsize", "batch", "bs"], Subject::Size),
    (&["weight_decay", "wd", "l2", "reg", "alpha", "temperature", "ent_coef", "entropy_coef"], Subject::Scale),
    (&["dropout", "drop_rate", "droprate"], Subject::Fraction),
    (
        &["depth", "layers", "num_layers", "n_layers", "n_layer", "nlayers", "hidden_layers", "blocks", "n_estimators"],
        Subject::Size,
    ),
    (
        &[
            "width",
            "hidden",
            "hidden_size",
            "hidden_dim",
            "d_model",
            "n_embd",
            "embed_dim",
            "channels",
            "units",
            "max_depth",
        ],
        Subject::Size,
    ),
    (&["heads", "n_head", "num_heads", "n_heads", "nhead", "rank", "lora_r"], Subject::Size),
    (
        &[
            "momentum",
            "beta1",
            "beta2",
            "gamma",
            "gae_lambda",
            "ema",
            "ema_decay",
            "polyak",
            "smoothing",
            "label_smoothing",
        ],
        Subject::Fraction,
    ),
    (
        &["clip", "grad_clip", "clip_coef", "max_grad_norm", "warmup", "tau", "epsilon", "sigma", "noise"],
        Subject::Scale,
    ),
    (&["epochs", "steps", "iterations"], Subject::Never),
];
/// Words of parameters for places, frequencies, durations, devices or shapes of data, which are not varied to study an
/// effect.
const NO_AXES: [&str; 49] = [
    "seed",
    "dir",
    "path",
    "file",
    "folder",
    "root",
    "out",
    "output",
    "epoch",
    "epochs",
    "iter",
    "iters",
    "iterations",
    "worker",
    "workers",
    "thread",
    "threads",
    "log",
    "logging",
    "save",
    "eval",
    "port",
    "host",
    "address",
    "print",
    "device",
    "devices",
    "gpu",
    "gpus",
    "cuda",
    "name",
    "project",
    "entity",
    "interval",
    "every",
    "freq",
    "frequency",
    "verbose",
    "min",
    "test",
    "val",
    "classes",
    "image",
    "img",
    "vocab",
    "world",
    "local",
    "timeout",
    "version",
];

/// Names of parameters whose choices select an action or its object; and values that do so.
const DEEDS: [&str; 10] =
    ["split", "stage", "phase", "action", "command", "task", "format", "level", "backend", "subset"];
const DONE: [&str; 7] = ["train", "eval", "test", "predict", "val", "debug", "info"];

/// The rule for the suggested values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A positive number: a half and twice of it, or a tenth and ten times a power of ten.
    Scale,
    /// A number from 0 to 1.
    Fraction,
    /// A count: a half and twice of it.
    Size,
    /// One of a few words.
    Choice,
    /// A parameter that is never varied.
    Never,
}

/// An axis with the default as its only value, and a suggestion of more.
#[derive(Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) parameter: String,
    /// The name of the axis.
    pub(super) name: String,
    /// The default, as YAML.
    pub(super) value: String,
    /// Several values, as YAML.
    pub(super) more: String,
}

/// The parameters that are worth varying.
pub(super) fn axes(parameters: &[Parameter]) -> Vec<Axis> {
    let mut axes: Vec<(usize, Axis)> = parameters.iter().filter_map(axis).collect();
    // A stable sort: among equals, the order of the script.
    axes.sort_by_key(|(rank, _)| *rank);
    let mut chosen_axes: Vec<Axis> = Vec::new();
    for (_, axis) in axes {
        if chosen_axes.len() < MAX_AXES && chosen_axes.iter().all(|other| other.name != axis.name) {
            chosen_axes.push(axis);
        }
    }
    chosen_axes
}

/// An axis for a parameter, with its rank.
fn axis(parameter: &Parameter) -> Option<(usize, Axis)> {
    if !matches!(parameter.style, Style::Value | Style::Short) {
        return None;
    }
    let mut words = parameter.name.rsplit('.');
    let mut last_word = words.next().unwrap_or_default();
    if parameter.choices.len() > 1 && ["name", "type", "kind"].contains(&last_word) {
        // `optim.name` is a choice of `optim`.
        last_word = words.next().unwrap_or(last_word);
    }
    let leaf = snake(last_word);
    let (rank, subject) = subject(&leaf, parameter)?;
    let more = if parameter.choices.len() > 1 && parameter.choices.contains(&parameter.default) {
        parameter.choices.iter().take(MAX_CHOICES).map(scalar::yaml).collect::<Option<Vec<_>>>()?
    } else {
        let Json::Number(number) = &parameter.default else { return None };
        match number.as_i64() {
            Some(count) if subject == Subject::Size || subject == Subject::Scale && count > 1 => counts(count)?,
            _ => numbers(number.as_f64()?, subject)?,
        }
    };
    let more = within(more, parameter)?;
    let name = axis_name(&parameter.name);
    let value = scalar::yaml(&parameter.default)?;
    let more = format!("[{}]", more.join(", "));
    is_name(&name).then(|| (rank, Axis { parameter: parameter.name.clone(), name, value, more }))
}

/// Returns the subject of `parameter`, with its rank.
fn subject(leaf: &str, parameter: &Parameter) -> Option<(usize, Subject)> {
    let leaf = leaf.strip_prefix("per_device_").unwrap_or(leaf);
    let words: Vec<&str> = leaf.split('_').collect();
    let is_deed = || {
        let is_done = |choice: &Json| choice.as_str().is_some_and(|text| DONE.contains(&&*text.to_lowercase()));
        words.iter().any(|word| DEEDS.contains(word)) || parameter.choices.iter().any(is_done)
    };
    if words.iter().any(|word| NO_AXES.contains(word)) {
        return None;
    }
    // The whole name, else its end: `critic_learning_rate`, `actor_lr`.
    let exact_match = SUBJECTS.iter().position(|(names, _)| names.contains(&leaf));
    let is_suffix = |name: &&'static str| leaf.strip_suffix(*name).is_some_and(|rest| rest.ends_with('_'));
    let index = exact_match.or_else(|| SUBJECTS.iter().position(|(names, _)| names.iter().any(is_suffix)));
    match index.map(|rank| (rank, SUBJECTS[rank].1)) {
        Some((_, Subject::Never)) => None,
        Some((rank, Subject::Choice)) => (parameter.choices.len() > 1).then_some((rank, Subject::Choice)),
        Some(entry) => Some(entry),
        // Choices among a few words may be worth it, numbers of unknown meaning are not.
        None if (2..=MAX_CHOICES).contains(&parameter.choices.len()) && !is_deed() => {
            Some((SUBJECTS.len(), Subject::Choice))
        }
        None => None,
    }
}

/// The values that a parameter accepts, if that is more than its default.
fn within(values: Vec<String>, parameter: &Parameter) -> Option<Vec<String>> {
    let is_in = |value: &String| {
        let number = value.parse::<f64>().ok();
        number.is_none_or(|number| {
            parameter.least.is_none_or(|minimum| number >= minimum)
                && parameter.most.is_none_or(|maximum| number <= maximum)
        })
    };
    let allowed_values: Vec<String> = values.into_iter().filter(is_in).collect();
    (allowed_values.len() > 1).then_some(allowed_values)
}

/// A name with underscores between its words: `batchSize` and `batch-size` are `batch_size`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut was_lower = false;
    for char in name.chars() {
        if char.is_ascii_uppercase() && was_lower {
            out.push('_');
        }
        was_lower = char.is_ascii_lowercase();
        out.push(if char == '-' { '_' } else { char.to_ascii_lowercase() });
    }
    out
}

/// A count, its half and its double.
fn counts(count: i64) -> Option<Vec<String>> {
    let values = match count {
        1 => [1, 2, 4],
        count if count > 0 && count % 2 == 0 => [count / 2, count, count.checked_mul(2)?],
        count if (3..1000).contains(&count) => [count - 1, count, count + 1],
        _ => return None,
    };
    Some(values.map(|count| count.to_string()).into())
}

/// A number with two others, within the range in which it has a meaning.
fn numbers(value: f64, subject: Subject) -> Option<Vec<String>> {
    let (lower, upper) = match subject {
        Subject::Fraction if value == 0.0 => return Some(["0.0", "0.1", "0.2"].map(str::to_owned).into()),
        Subject::Fraction if value > 0.0 && value < 1.0 => fractions(value),
        // A third with one digit: 0.1 has 0.03.
        Subject::Scale if value > 0.0 && value < 0.5 => (rounded(value / 3.0, 0), value * 3.0),
        Subject::Scale if value > 0.0 => (value / 2.0, value * 2.0),
        _ => return None,
    };
    Some([rounded(lower, 10), value, rounded(upper, 10)].map(scalar::float_text).into())
}

/// Near 1, the distance from 1 counts: 0.9, 0.95, 0.975.
fn fractions(value: f64) -> (f64, f64) {
    if value >= 0.75 {
        (2.0 * value - 1.0, f64::midpoint(1.0, value))
    } else if value >= 0.5 {
        (value - 0.2, value + 0.2)
    } else {
        (value / 2.0, value * 2.0)
    }
}

/// A number with this many digits after its first.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameter(name: &str, default: impl Into<Json>, choices: &[Json]) -> Parameter {
        let text =
            json!({ "name": name, "style": "value", "required": false, "default": default.into(), "choices": choices });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn the_learning_rate_comes_first_and_paths_never() {
        let parameters = [
            parameter("batch_size", 32, &[]),
            parameter("out_dir", "out", &[json!("out"), json!("x")]),
            parameter("log_interval", 10, &[]),
            parameter("optimizer", "adamw", &[json!("adamw"), json!("sgd")]),
            parameter("dropout", 0.0, &[]),
            parameter("opt.lr", 0.0003, &[]),
        ];
        let found_axes = axes(&parameters);
        let axis_texts: Vec<[&str; 3]> =
            found_axes.iter().map(|axis| [&*axis.name, &*axis.value, &*axis.more]).collect();
        let expected = [
            ["opt_lr", "0.0003", "[0.0001, 0.0003, 0.0009]"],
            ["optimizer", "adamw", "[adamw, sgd]"],
            ["batch_size", "32", "[16, 32, 64]"],
        ];
        assert_eq!(axis_texts, expected);
    }

    #[test]
    fn what_is_done_is_no_axis() {
        let names = |name: &str, choices: [&str; 2]| {
            let parameter = parameter(name, choices[0], &choices.map(Json::from));
            axes(&[parameter]).first().map(|axis| axis.name.clone())
        };
        assert_eq!(names("mode", ["train", "test"]), None);
        assert_eq!(names("mode", ["plain", "extra"]).as_deref(), Some("mode"));
        assert_eq!(names("stage", ["one", "two"]), None);
        assert_eq!(names("what", ["Train", "eval"]), None);
        assert_eq!(names("name", ["a", "b"]), None);
        assert_eq!(names("optim.name", ["adam", "sgd"]).as_deref(), Some("optim_name"));
        assert_eq!(names("init_type", ["normal", "xavier"]).as_deref(), Some("init_type"));
        let size = parameter("per_device_train_batch_size", 8, &[]);
        assert_eq!(axes(&[size]).first().map(|axis| axis.more.clone()).as_deref(), Some("[4, 8, 16]"));
    }

    #[test]
    fn values_that_a_parameter_rejects_are_not_suggested() {
        let values_of = |name: &str, default: Json, least, most| {
            let parameter = Parameter { least, most, ..parameter(name, default, &[]) };
            axes(&[parameter]).first().map(|axis| axis.more.clone())
        };
        assert_eq!(values_of("dropout", json!(0.3), Some(0.0), Some(0.5)).as_deref(), Some("[0.15, 0.3]"));
        assert_eq!(values_of("n_layer", json!(2), Some(2.0), None).as_deref(), Some("[2, 4]"));
        assert_eq!(values_of("lr", json!(1.0), Some(0.9), Some(1.0)), None);
    }

    #[test]
    fn values_stay_in_the_range_of_their_parameter() {
        let values_of =
            |name: &str, default: Json| axes(&[parameter(name, default, &[])]).first().map(|axis| axis.more.clone());
        let expected = [
            ("gamma", json!(0.99), Some("[0.98, 0.99, 0.995]")),
            ("momentum", json!(0.9), Some("[0.8, 0.9, 0.95]")),
            ("gae-lambda", json!(0.95), Some("[0.9, 0.95, 0.975]")),
            ("dropout", json!(0.0), Some("[0.0, 0.1, 0.2]")),
            ("dropout", json!(0.1), Some("[0.05, 0.1, 0.2]")),
            ("dropout", json!(0.5), Some("[0.3, 0.5, 0.7]")),
            ("weight_decay", json!(0.1), Some("[0.03, 0.1, 0.3]")),
            ("lr", json!(1.0), Some("[0.5, 1.0, 2.0]")),
            ("lr", json!(0.00025), Some("[8e-5, 0.00025, 0.00075]")),
            ("batchSize", json!(64), Some("[32, 64, 128]")),
            ("n_layer", json!(1), Some("[1, 2, 4]")),
            ("depth", json!(5), Some("[4, 5, 6]")),
            ("momentum", json!(1.8), None),
            ("image_size", json!(64), None),
            ("nz", json!(100), None),
            ("master_port", json!(29500), None),
            ("min_lr", json!(6e-5), None),
            ("log-interval", json!(10), None),
            ("epochs", json!(10), None),
            ("test_batch_size", json!(1000), None),
            ("num_classes", json!(10), None),
            ("model", json!("resnet"), None),
            ("lr", json!("0.1"), None),
        ];
        for (name, default, values) in expected {
            assert_eq!(values_of(name, default.clone()).as_deref(), values, "{name}: {default}");
        }
    }
}
