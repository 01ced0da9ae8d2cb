//! The arguments of a run with further values of an axis: the arguments of an earlier run, with its values of the axis and the new ones.

use std::collections::BTreeMap;

use serde::Deserialize;
use sweep_job::Value;

use super::act::Refusal;
use crate::{
    plan::axes_of,
    recipe::typed_value,
    run::watch::{Snapshot, State},
};

/// Longest text with values, in bytes.
pub(super) const MAX_VALUES: usize = 2000;
/// The option.
const OPTION: &str = "--axis";

/// An extension, as a page sends it.
#[derive(Debug, Deserialize)]
pub(super) struct Wish {
    step: String,
    axis: String,
    /// Further values, separated by commas.
    values: String,
    /// True to run it; false to show its plan.
    pub(super) go: bool,
}

/// The arguments of `sweep run` and `sweep plan` for an extension of a run.
pub(super) fn arguments(snapshot: &Snapshot, wish: &Wish) -> Result<Vec<String>, Refusal> {
    // Decisions add seeds in reserve, which are not values in the recipe.
    let jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs);
    let jobs = jobs.filter(|(_, state)| !matches!(state, State::Reserve));
    let jobs = jobs.map(|(job, _)| (job.label.as_str(), job.axes.as_slice()));
    extended(&snapshot.manifest.typed, jobs, wish)
}

/// The arguments for jobs, each with its label, and with its axes if the label cannot be divided into them.
fn extended<'l>(
    typed: &[String],
    jobs: impl Iterator<Item = (&'l str, &'l [(String, String)])>,
    wish: &Wish,
) -> Result<Vec<String>, Refusal> {
    let new_values = wish.values.trim().trim_matches(',').trim();
    let is_text = !new_values.is_empty() && new_values.len() <= MAX_VALUES && !new_values.contains(char::is_control);
    if !is_text {
        return Err(Refusal::NoValues);
    }
    // The values of the axis by step, in the order of the jobs.
    let mut by_step: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (label, known_axes) in jobs {
        let (step, divided) = axes_of(label);
        let known_axes = known_axes.iter().map(|(axis, value)| (axis.as_str(), value.as_str()));
        let axes = if known_axes.len() > 0 { known_axes.collect() } else { divided };
        for (_, value) in axes.into_iter().filter(|(axis, _)| *axis == wish.axis) {
            let values = by_step.entry(step).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    let no_axis = || Refusal::NoAxis(wish.axis.clone());
    let values = by_step.get(wish.step.as_str()).ok_or_else(no_axis)?;
    let is_known = |value: &str| values.iter().any(|known| typed_value(known) == typed_value(value.trim()));
    if !new_values.contains(['[', '{', '"', '\'']) && new_values.split(',').all(is_known) {
        return Err(Refusal::NothingNew(wish.axis.clone()));
    }
    let is_shared = by_step.values().all(|other| other == values);
    let name = if is_shared { wish.axis.clone() } else { format!("{}.{}", wish.step, wish.axis) };
    let all: Vec<String> = values.iter().map(|value| spelled(value)).chain([new_values.to_owned()]).collect();
    let mut list = all.join(",");
    // Otherwise the first value would be read as the list.
    if list.starts_with(['[', '{']) {
        list = format!("[{list}]");
    }
    let mut arguments = without_axis(typed, &wish.step, &wish.axis, is_shared);
    arguments.extend([OPTION.to_owned(), format!("{name}={list}")]);
    Ok(arguments)
}

/// The arguments without earlier values of an axis: values for the step, and values for all steps if the axis has the same values in all of
/// them.
fn without_axis(typed: &[String], step: &str, axis: &str, is_shared: bool) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut words = typed.iter().peekable();
    while let Some(word) = words.next() {
        let is_replaced = |value: &String| {
            let name = value.split_once('=').map_or(value.as_str(), |(name, _)| name);
            match name.rsplit_once('.') {
                Some((other_step, other)) if other == axis => is_shared || other_step == step,
                _ => is_shared && name == axis,
            }
        };
        if word == OPTION && words.peek().is_some_and(|value| is_replaced(value)) {
            words.next();
        } else {
            arguments.push(word.clone());
        }
    }
    arguments
}

/// A value of a label as an item of a list.
fn spelled(value: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '+' | '-' | '/');
    let is_structure = value.starts_with(['[', '{']) && !matches!(typed_value(value), Value::Text(_));
    if is_structure || (!value.is_empty() && value.chars().all(is_plain)) {
        value.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(typed: &str, labels: &[&str], step: &str, axis: &str, values: &str) -> Result<String, String> {
        let typed: Vec<String> = typed.split(' ').map(str::to_owned).collect();
        let wish = Wish { step: step.into(), axis: axis.into(), values: values.into(), go: false };
        let arguments = extended(&typed, labels.iter().map(|label| (*label, [].as_slice())), &wish);
        arguments.map(|arguments| arguments.join(" ")).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn an_axis_gets_further_values() {
        let labels = ["a/lr=0.1,seed=0", "a/lr=0.1,seed=1", "a/lr=1,seed=0", "b/lr=0.1,seed=0", "b/lr=0.1,seed=1"];
        let extended = |typed, step, axis, values| of(typed, &labels, step, axis, values);
        assert_eq!(extended("r.yaml", "a", "seed", " 2,3, ").unwrap(), "r.yaml --axis seed=0,1,2,3");
        // Both steps have `lr`, with different values, so only the step's values are changed.
        assert_eq!(
            extended("r.yaml --axis b.lr=0.1", "a", "lr", "3").unwrap(),
            "r.yaml --axis b.lr=0.1 --axis a.lr=0.1,1,3"
        );
        assert_eq!(
            extended("r.yaml --axis seed=0,1 --set x=1 --axis a.seed=0,1", "b", "seed", "5").unwrap(),
            "r.yaml --set x=1 --axis seed=0,1,5"
        );
        for (axis, values, expected) in [
            ("seed", "", "name the values"),
            ("seed", "1\n2", "name the values"),
            ("seed", "1.0,0", "already has all these values"),
            ("momentum", "1", "no step of the run has the axis `momentum`"),
        ] {
            let refusal = extended("r.yaml", "a", axis, values).unwrap_err();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn a_value_with_the_name_of_an_axis_is_one() {
        let axes =
            |v: &str, seed: &str| [("v", v), ("seed", seed)].map(|(axis, value)| (axis.to_owned(), value.to_owned()));
        let (odd, plain) = (axes("x=1,seed=5", "0"), axes("x=1,seed=5", "1"));
        let jobs = [("a/v=x=1,seed=5,seed=0", odd.as_slice()), ("a/v=x=1,seed=5,seed=1", plain.as_slice())];
        let wish =
            |axis: &str, values: &str| Wish { step: "a".into(), axis: axis.into(), values: values.into(), go: false };
        let extended =
            |axis, values| extended(&["r.yaml".to_owned()], jobs.into_iter(), &wish(axis, values)).ok().unwrap();
        assert_eq!(extended("v", "y"), ["r.yaml", "--axis", r#"v="x=1,seed=5",y"#]);
        assert_eq!(extended("seed", "2"), ["r.yaml", "--axis", "seed=0,1,2"]);
    }

    #[test]
    fn values_are_spelled_as_items_of_a_list() {
        let labels = ["a/x=[0.9, 0.95]", "a/x=[1, 2]", "a/note=a b, \"c\"", "a/note="];
        let extended = |axis, values| of("r.yaml", &labels, "a", axis, values).unwrap();
        assert_eq!(extended("x", "[3, 4]"), "r.yaml --axis x=[[0.9, 0.95],[1, 2],[3, 4]]");
        assert_eq!(extended("note", "d"), r#"r.yaml --axis note="a b, \"c\"","",d"#);
    }
}
