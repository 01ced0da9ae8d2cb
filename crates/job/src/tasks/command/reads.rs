//! `reads`: sources of curves in a program that does not know of `sweep`.

use super::{Command, Pattern};
use crate::{Conflict, Kind, ParamType, Value, params::Inside};

/// Names of columns and groups that are taken as the step, in order of preference.
pub const STEP_NAMES: [&str; 5] = ["step", "global_step", "iteration", "iter", "epoch"];

/// Kinds of sources.
const KINDS: [&str; 4] = ["csv", "jsonl", "stdout", "tensorboard"];

/// One text or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl ParamType for Texts {
    const KIND: Kind = Kind::Either(&Kind::Text, &Kind::List(&Kind::Text));

    fn to_value(&self) -> Value {
        match self.0.as_slice() {
            [one] => Value::Text(one.clone()),
            several => Value::List(several.iter().cloned().map(Value::Text).collect()),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(Self(vec![text.clone()])),
            value => Vec::from_value(value).map(Self),
        }
    }
}

impl Command {
    /// The sources in `reads`, each as its kind and its path or pattern.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let sources = self.reads.iter();
        sources.flat_map(|(kind, places)| places.0.iter().map(move |place| (kind.as_str(), place.as_str())))
    }

    pub(super) fn check_reads(&self, conflicts: &mut Vec<Conflict>) {
        for (kind, place) in self.sources() {
            let (message, advice) = if !KINDS.contains(&kind) {
                (format!("`reads` has no kind `{kind}`"), format!("use {}", KINDS.join(", ")))
            } else if kind == "stdout" {
                let Err(reason) = Pattern::new(place) else { continue };
                let advice =
                    "write a regular expression with `{NAME}` for each number, for example `step {step} .*loss {loss}`";
                (format!("`reads` has a pattern that cannot be used: {reason}"), advice.into())
            } else if Inside::from_value(&Value::Text(place.to_owned())).is_none() && place != "." {
                let message = format!("`reads` names `{place}`, which is not inside the job's folder");
                (message, "write a relative path without `..`".into())
            } else {
                continue;
            };
            conflicts.push(Conflict { params: vec!["reads"], message, advice });
        }
    }
}
