//! Axes that a first recipe suggests.

use serde_json::Value as Json;

use super::{Parameter, Style, scalar};
use crate::recipe::is_name;

/// Most axes that are suggested: their values multiply.
const MOST: usize = 3;
/// Words in the names of parameters that say where, how long or on what a script works.
const NO_AXES: [&str; 24] = [
    "seed", "dir", "path", "file", "out", "epoch", "step", "iter", "worker", "thread", "log", "save", "eval", "port",
    "rank", "print", "device", "gpu", "cuda", "name", "project", "interval", "every", "verbose",
];

/// An axis with the default as its only value, and a suggestion of more.
#[derive(Debug, PartialEq)]
pub(super) struct Axis {
    /// The parameter.
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
    let mut axes: Vec<(u8, Axis)> = parameters.iter().filter_map(axis).collect();
    // A stable sort: among equals, the order of the script.
    axes.sort_by_key(|(rank, _)| *rank);
    let mut chosen: Vec<Axis> = Vec::new();
    for (_, axis) in axes {
        if chosen.len() < MOST && chosen.iter().all(|other| other.name != axis.name) {
            chosen.push(axis);
        }
    }
    chosen
}

/// An axis for a parameter, with its rank: the learning rate comes first, then choices, then numbers.
fn axis(parameter: &Parameter) -> Option<(u8, Axis)> {
    let lower = parameter.name.to_ascii_lowercase();
    if parameter.style != Style::Value || NO_AXES.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let (mut rank, more) = if parameter.choices.len() > 1 && parameter.choices.contains(&parameter.default) {
        (1, parameter.choices.iter().take(6).map(scalar::yaml).collect::<Option<Vec<_>>>()?)
    } else {
        let Json::Number(number) = &parameter.default else { return None };
        let value = number.as_f64()?;
        if value <= 0.0 {
            return None;
        }
        match number.as_u64() {
            Some(1) => (3, vec!["1".into(), "2".into(), "4".into()]),
            Some(int) if int % 2 == 0 => (3, [int / 2, int, int.checked_mul(2)?].map(|int| int.to_string()).into()),
            Some(_) => return None,
            None => (2, [value / 2.0, value, value * 2.0].map(scalar::float_text).into()),
        }
    };
    let leaf = lower.rsplit('.').next().unwrap_or_default().replace('-', "_");
    if leaf == "lr" || leaf.ends_with("learning_rate") || leaf.ends_with("_lr") {
        rank = 0;
    }
    let name = parameter.name.replace('.', "_");
    let value = scalar::yaml(&parameter.default)?;
    let more = format!("[{}]", more.join(", "));
    is_name(&name).then(|| (rank, Axis { parameter: parameter.name.clone(), name, value, more }))
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
        let found = axes(&parameters);
        let shown: Vec<[&str; 3]> = found.iter().map(|axis| [&*axis.name, &*axis.value, &*axis.more]).collect();
        let expected = [
            ["opt_lr", "0.0003", "[0.00015, 0.0003, 0.0006]"],
            ["optimizer", "adamw", "[adamw, sgd]"],
            ["batch_size", "32", "[16, 32, 64]"],
        ];
        assert_eq!(shown, expected);
    }
}
