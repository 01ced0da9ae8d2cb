//! Keys of states: jobs that compute the same up to a step have the same state there.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use sweep_job::{NEVER, Reach, TaskInfo, Value, Values};

use crate::record::{Identity, Key, Needed};

/// Version of the form of [`Prefix`].
const FORMAT: u32 = 1;
/// The parameter with the step at which a job ends. Keys of states leave it out, because states do not depend on it.
const UNTIL: &str = "until";

/// The end of a job, and the steps from which its parameters act.
#[derive(Debug, Clone, PartialEq)]
pub struct Prefixes {
    /// The job's end.
    pub reach: Reach,
    /// Number of steps before a parameter acts, for parameters that do not act from the beginning. A state after at
    /// most this many steps does not depend on the parameter.
    acts_from: BTreeMap<String, u64>,
    /// The name of the variant of a program's code, which follows from its content.
    variant: Option<String>,
}

/// Everything that decides the state of a job after `step` steps, except the code of a program: a job that continues
/// from the state compares the code then.
#[derive(Serialize)]
struct Prefix<'a> {
    #[serde(rename = "prefix")]
    format: u32,
    step: u64,
    task: &'a str,
    revision: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<sweep_job::Backend>,
    params: BTreeMap<&'a str, Value>,
    inputs: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
    #[serde(skip_serializing_if = "Needed::is_empty")]
    needs: &'a Needed,
}

impl Prefixes {
    /// Returns the prefixes of a job with the parameters `values`; `None` if the job cannot continue from another job's
    /// state.
    pub fn of(task: &TaskInfo, values: &Values) -> Option<Self> {
        let folder = values.get("code").and_then(Value::as_text).and_then(|folder| Path::new(folder).file_name());
        let variant = folder.map(|name| name.to_string_lossy().into_owned());
        Some(Self { reach: task.reach(values)?, acts_from: task.acts_from(values), variant })
    }

    /// True if a job can continue from a state after `step` steps.
    pub fn contains(&self, step: u64) -> bool {
        step > 0 && self.reach.end.is_none_or(|end| step < end || (step == end && self.reach.may_only_evaluate))
    }

    /// The key of the state after `step` steps, which jobs share if they compute the same up to that step. `identity`
    /// is the job's identity.
    pub fn key(&self, identity: &Identity, step: u64) -> Result<Key, serde_json::Error> {
        let is_late = |name: &str| self.acts_from.get(name).is_some_and(|from| *from >= step);
        let params = identity.params.iter().filter(|(name, _)| *name != UNTIL && !is_late(name));
        let params = params.filter_map(|(name, value)| match value {
            Value::Map(entries) => {
                let entries = entries.iter().filter(|(entry, _)| !is_late(&format!("{name}.{entry}")));
                let entries: BTreeMap<String, Value> =
                    entries.map(|(entry, value)| (entry.clone(), value.clone())).collect();
                (!entries.is_empty()).then_some((name.as_str(), Value::Map(entries)))
            }
            value => Some((name.as_str(), value.clone())),
        });
        let inputs = identity.inputs.iter().filter(|(name, _)| !is_late(name));
        let prefix = Prefix {
            format: FORMAT,
            step,
            task: &identity.task,
            revision: identity.revision,
            backend: identity.backend,
            params: params.collect(),
            inputs: inputs.map(|(name, digest)| (name.as_str(), digest.as_str())).collect(),
            variant: self.variant.as_deref(),
            needs: &identity.needs,
        };
        Key::of_json(&prefix)
    }

    /// The step at which the job ends, and the key of the state that it leaves there; `None` if it leaves no state.
    pub fn left(&self, identity: &Identity) -> Result<Option<(u64, Key)>, serde_json::Error> {
        let end = self.reach.end.filter(|_| self.reach.leaves_state);
        end.map(|end| Ok((end, self.key(identity, end)?))).transpose()
    }

    /// The steps before the job's end on which a parameter begins to act.
    pub fn breakpoints(&self) -> impl Iterator<Item = u64> {
        let is_before_end = |step: &u64| self.reach.end.is_none_or(|end| *step < end);
        self.acts_from.values().copied().filter(move |step| *step > 0 && *step < NEVER && is_before_end(step))
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::Task;

    use super::*;

    fn key(task: &str, params: &[(&str, Value)], step: u64) -> Key {
        let task = Task::info(task).unwrap();
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let values = task.complete(params.collect());
        let identity = Identity::new(task, &values, None, BTreeMap::new(), Needed::default());
        Prefixes::of(task, &values).unwrap().key(&identity, step).unwrap()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn a_state_depends_on_what_acts_before_it() {
        let until = |until| [("until", Value::Int(until))];
        assert_eq!(key("train", &until(20), 20), key("train", &until(40), 20));
        assert_eq!(key("train", &until(20), 20), key("train", &[], 20));
        assert_ne!(key("train", &until(20), 20), key("train", &until(20), 19));
        assert_ne!(key("train", &[], 20), key("train", &[("seed", Value::Int(1))], 20));
        assert_ne!(key("train", &[], 20), key("train", &[("iters", Value::Int(300))], 20), "the schedule is another");
        // The first masks are chosen in iteration 20.
        let method = |method| [("prune", text(method)), ("sparsity", Value::Float(0.7))];
        assert_eq!(key("train", &method("bitter3"), 20), key("train", &[], 20));
        assert_ne!(key("train", &method("bitter3"), 21), key("train", &[], 21));
    }

    #[test]
    fn parameters_of_a_program_act_when_it_says_so() {
        let params = |lr: f64, later: f64| {
            let params = [("lr", lr), ("lr2", later)].map(|(name, value)| (name.to_owned(), Value::Float(value)));
            let acts_from = BTreeMap::from([("lr2".to_owned(), Value::Int(3))]);
            [("params", Value::Map(params.into())), ("acts_from", Value::Map(acts_from)), ("run", text("true"))]
        };
        assert_eq!(key("command", &params(0.1, 0.2), 3), key("command", &params(0.1, 0.3), 3));
        assert_ne!(key("command", &params(0.1, 0.2), 4), key("command", &params(0.1, 0.3), 4));
        assert_ne!(key("command", &params(0.1, 0.2), 3), key("command", &params(0.2, 0.2), 3));
    }

    #[test]
    fn a_job_continues_from_states_before_its_end() {
        let prefixes = |params: &[(&str, i64)]| {
            let task = Task::info("train").unwrap();
            let params = params.iter().map(|(name, value)| ((*name).to_owned(), Value::Int(*value)));
            Prefixes::of(task, &task.complete(params.collect())).unwrap()
        };
        let full_run = prefixes(&[]);
        assert_eq!([0, 1, 199, 200, 201].map(|step| full_run.contains(step)), [false, true, true, false, false]);
        let part = prefixes(&[("until", 20)]);
        assert_eq!([19, 20, 21].map(|step| part.contains(step)), [true, true, false]);
        assert!(Prefixes::of(Task::info("mock").unwrap(), &Values::new()).is_none());
    }
}
