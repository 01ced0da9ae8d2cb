//! `reads`: sources of curves in a program that does not know of `sweep`.

use regex::{Regex, RegexBuilder};

use super::Command;
use crate::{Conflict, Kind, ParamType, Value, params::Inside};

/// Names that say the step of a row, of a line or of a match, the first that is there.
pub const STEP_NAMES: [&str; 5] = ["step", "global_step", "iteration", "iter", "epoch"];

/// Kinds of sources.
const KINDS: [&str; 4] = ["csv", "jsonl", "stdout", "tensorboard"];
/// The largest compiled pattern, in bytes.
const LARGEST_PATTERN: usize = 1 << 20;

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

/// Compiles a pattern of `reads: { stdout }`. The error is a phrase.
pub fn compile_pattern(text: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build();
    let regex = compiled.map_err(|error| {
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim();
        reason.trim_start_matches("error: ").to_owned()
    })?;
    if regex.capture_names().flatten().all(|name| STEP_NAMES.contains(&name)) {
        return Err("no group has the name of a metric".into());
    }
    Ok(regex)
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
                (format!("`reads` does not know `{kind}`"), format!("use {}", KINDS.join(", ")))
            } else if kind == "stdout" {
                let Err(reason) = compile_pattern(place) else { continue };
                let advice =
                    "write a regular expression with named groups, for example `step (?<step>\\d+) loss (?<loss>\\S+)`";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_checked() {
        let regex = compile_pattern(r"step (?<step>\d+) .*loss (?<loss>[\d.]+)").unwrap();
        assert_eq!(&regex.captures("step 3 of 9 loss 2.5").unwrap()["loss"], "2.5");
        assert_eq!(compile_pattern("(?<loss>").unwrap_err(), "unclosed group");
        assert_eq!(compile_pattern(r"loss (\d+)").unwrap_err(), "no group has the name of a metric");
        assert!(compile_pattern(r"(?<x>\w{1,1000}){1000}").unwrap_err().contains("size limit"));
    }
}
