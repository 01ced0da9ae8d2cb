//! Recognition of jobs that compute the same, although their keys differ: because the program's metrics are read
//! differently, because a parameter changes no argument, or because a needed job is the same under another key.

use std::collections::BTreeSet;

use serde::Serialize;
use sweep_job::{
    Name, TaskSpec as _, Value, Values,
    tasks::{Command, flag_arguments},
};

use super::{
    Identity, Key,
    deferred::{self, Deferred},
};

/// Everything that decides the result of a program, without the parameters that only read its result.
#[derive(Serialize)]
struct Computation<'a> {
    format: u32,
    task: &'a Name,
    revision: u32,
    backend: Option<sweep_job::Backend>,
    params: Values,
    /// The arguments, if `params` are among them.
    arguments: Option<Vec<String>>,
    inputs: &'a std::collections::BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    needs: BTreeSet<Key>,
}

/// The view of needed jobs under which jobs are compared.
pub trait Needs {
    /// The key that stands for all keys of the same job.
    fn stand_in(&self, key: Key) -> Key;
    /// A text for a result that a job takes: equal for equal results.
    fn result(&self, deferred: &Deferred) -> String;
}

/// Needed jobs as their keys tell them apart.
struct ByKeys;

impl Needs for ByKeys {
    fn stand_in(&self, key: Key) -> Key {
        key
    }

    fn result(&self, deferred: &Deferred) -> String {
        let Deferred { key, product, name } = deferred;
        format!("{key} {product:?} {name}")
    }
}

impl Identity {
    /// Digest of the computation of a program's job, which does not depend on the patterns that read its metrics;
    /// `None` for other tasks.
    pub fn program_run(&self) -> Option<Key> {
        if self.task == Command::NAME { self.computation(true, &ByKeys).ok() } else { None }
    }

    /// Digest of the job's computation: of two jobs with equal digests, only one has to run. With `reads_params`, the
    /// program reads the file with its parameters, so that each of them counts. The digest does not cover the code.
    pub fn computation(&self, reads_params: bool, needs: &dyn Needs) -> Result<Key, serde_json::Error> {
        // A record does not keep the spelling of numbers, so these parameters take the same way through JSON.
        let mut params: Values = serde_json::from_str(&serde_json::to_string(&self.params)?)?;
        let mut arguments = None;
        if self.task == Command::NAME {
            params.retain(|name, _| !Command::MEASURING.contains(&name.as_str()));
            arguments = flag_arguments(&params);
            if arguments.is_some() {
                let params_name = reads_params.then_some("params");
                params.retain(|name, _| {
                    !Command::ARGUMENTS.contains(&name.as_str()) || Some(name.as_str()) == params_name
                });
            } else if !reads_params {
                params.retain(|name, value| name.as_str() != "params" || !without_null(value));
            }
        }
        params.values_mut().for_each(|value| rename(value, needs));
        for argument in arguments.iter_mut().flatten() {
            *argument = deferred::renamed(argument, &mut |deferred| needs.result(deferred));
        }
        let computation = Computation {
            format: self.format,
            task: &self.task,
            revision: self.revision,
            backend: self.backend,
            params,
            arguments,
            inputs: &self.inputs,
            program: self.program.as_deref(),
            needs: self.needs.iter().map(|key| needs.stand_in(key)).collect(),
        };
        Key::of_json(&computation)
    }
}

/// Removes entries that are null, which no program gets otherwise; returns true if nothing is left.
fn without_null(value: &mut Value) -> bool {
    match value {
        Value::Map(entries) => {
            entries.retain(|_, value| !without_null(value));
            entries.is_empty()
        }
        value => *value == Value::Null,
    }
}

fn rename(value: &mut Value, needs: &dyn Needs) {
    match value {
        Value::Text(text) if deferred::is_open(text) => {
            *text = deferred::renamed(text, &mut |deferred| needs.result(deferred));
        }
        Value::List(items) => items.iter_mut().for_each(|item| rename(item, needs)),
        Value::Map(entries) => entries.values_mut().for_each(|value| rename(value, needs)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::Task;

    use super::*;
    use crate::record::{Needed, Product};

    /// A store without adopted records, in which every result has this text.
    struct Results(&'static str);

    impl Needs for Results {
        fn stand_in(&self, key: Key) -> Key {
            key
        }

        fn result(&self, _: &Deferred) -> String {
            self.0.to_owned()
        }
    }

    fn computation(json: &str, reads_params: bool, needs: &Results) -> Key {
        let task = Task::info("command").unwrap();
        let values = task.complete(serde_json::from_str(json).unwrap());
        let identity = Identity::new(task, &values, None, std::collections::BTreeMap::new(), Needed::default());
        identity.computation(reads_params, needs).unwrap()
    }

    fn of(json: &str) -> [Key; 2] {
        [true, false].map(|reads_params| computation(json, reads_params, &Results("")))
    }

    #[test]
    fn what_only_reads_a_program_is_no_part_of_its_computation() {
        let baseline = of(r#"{"argv": ["a"]}"#);
        let variants = [r#"{"argv": ["a"], "reads": {"csv": "x"}}"#, r#"{"argv": ["a"], "metrics": {"loss": "min"}}"#];
        assert_eq!(variants.map(of), [baseline, baseline]);
        for other in [r#"{"argv": ["b"]}"#, r#"{"argv": ["a"], "outputs": ["x"]}"#, r#"{"argv": ["a"], "seed": 1}"#] {
            assert_ne!(of(other), baseline, "{other}");
        }
    }

    #[test]
    fn parameters_count_by_their_arguments_unless_the_program_reads_them() {
        let with = |params: &str| of(&format!(r#"{{"argv": ["a", "${{{{ flags }}}}"], {params}}}"#));
        let [all, arguments] = with(r#""params": {"lr": 1}"#);
        for params in [r#"{"lr": 1, "x": null}"#, r#"{"lr": 1, "x": false}"#, r#"{"lr": 1, "o": {"x": [], "y": {}}}"#] {
            let [full_key, argument_key] = with(&format!(r#""params": {params}"#));
            assert_ne!(full_key, all, "{params}");
            assert_eq!(argument_key == arguments, !params.contains('['), "{params}");
        }
        assert_eq!(with(r#""params": {"lr": 1}, "hyphens": true"#), [all, arguments], "the file is the same, too");
        assert_ne!(with(r#""params": {"lr": 2}"#)[1], arguments);
        assert_ne!(with(r#""params": {"lr": 1}, "flags": "equals""#)[1], arguments);
        let manual_key = of(r#"{"argv": ["a", "--lr", "1"]}"#)[1];
        assert_ne!(manual_key, arguments, "what is written out is another recipe");
        let [read_key, unread_key] = of(r#"{"run": "a", "params": {"x": null, "o": {"y": null}}}"#);
        let [plain_key, _] = of(r#"{"run": "a"}"#);
        assert!(read_key != plain_key && unread_key == plain_key);
        assert_ne!(of(r#"{"run": "a", "params": {"x": false}}"#)[1], plain_key);
    }

    #[test]
    fn a_result_counts_by_its_value() {
        let deferred = Deferred { key: "ab".repeat(32).parse().unwrap(), product: Product::Metric, name: "m".into() };
        let json = format!(r#"{{"run": "echo {}"}}"#, deferred.placeholder());
        let of = |result| computation(&json, true, &Results(result));
        assert_eq!(of("1"), of("1"));
        assert_ne!(of("1"), of("2"));
    }
}
