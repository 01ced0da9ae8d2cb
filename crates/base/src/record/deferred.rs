//! Values that one job takes from another: metrics, curves and artifacts that are known when the needed job has run.
//!
//! Until then such a value is a text of a special form in a job's parameters, which contains the needed job's key. The
//! job's identity therefore contains the reference, and two recipes that take the same result have the same key,
//! whatever the step's name is. No text of an author has this form: its expressions are all resolved.

use std::{borrow::Cow, collections::BTreeSet, path::Path};

use sweep_job::{Curve, Kind, Param, ParamError, Spelling, TaskInfo, Value, Values, tasks::FLAGS};

use crate::record::{Key, Record};

/// Result of a job that another one can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// A number.
    Metric,
    /// A series of numbers: a map of `at`, the steps, and `values`.
    Curve,
    /// A file or a folder.
    Artifact,
}

/// A result of a needed job, by the job's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred {
    /// The job.
    pub key: Key,
    /// Kind of the result.
    pub product: Product,
    /// The result's name.
    pub name: String,
}

/// Error of parameters that cannot be resolved although the needed jobs are done.
#[derive(Debug, thiserror::Error)]
pub enum Unresolved {
    /// The record of the needed job no longer exists.
    #[error("the record of the needed job {0} is gone; run again")]
    Gone(String),
    /// The needed job has left no such metric.
    #[error("the needed job {label} has no metric `{name}`; it has {known}")]
    Metric {
        /// The needed job.
        label: String,
        /// The requested name.
        name: String,
        /// Available names.
        known: String,
    },
    /// The needed job has recorded no such curve.
    #[error("the needed job {label} has no curve `{name}`; it has {known}")]
    Curve {
        /// The needed job.
        label: String,
        /// The requested name.
        name: String,
        /// Available names.
        known: String,
    },
    /// The needed job has left no such artifact.
    #[error("the needed job {label} has no artifact `{name}`; it has {known}")]
    Artifact {
        /// The needed job.
        label: String,
        /// The requested name.
        name: String,
        /// Available names.
        known: String,
    },
    /// The value does not fit.
    #[error("`{param}`: {error}")]
    Value {
        /// The parameter.
        param: &'static str,
        /// The reason.
        error: ParamError,
    },
}

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

impl Deferred {
    /// The text that stands for the result in parameters.
    pub fn placeholder(&self) -> String {
        let product = match self.product {
            Product::Metric => "metrics",
            Product::Curve => "curves",
            Product::Artifact => "artifacts",
        };
        format!("{OPEN}{}.{product}.{}{CLOSE}", self.key, self.name)
    }

    fn parse(text: &str) -> Option<Self> {
        let (key, tail) = text.split_once('.')?;
        let (product, name) = tail.split_once('.')?;
        let product = match product {
            "metrics" => Product::Metric,
            "curves" => Product::Curve,
            _ => Product::Artifact,
        };
        Some(Self { key: key.parse().ok()?, product, name: name.to_owned() })
    }

    /// The result that a text as a whole stands for.
    fn whole(text: &str) -> Option<Self> {
        let content = text.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
        // A text with two placeholders also begins and ends like a single one.
        (!content.contains(OPEN)).then(|| Self::parse(content))?
    }
}

/// True if a text refers to a result.
pub fn is_open(text: &str) -> bool {
    text.contains(OPEN) && text != FLAGS
}

/// A value's text for people: a result is shown without the key of its job.
pub fn without_keys(text: &str) -> String {
    let mut output = String::new();
    let mut remainder = text;
    while let Some((prefix, tail)) = remainder.split_once(OPEN) {
        let (expression, tail) = tail.split_once(CLOSE).unwrap_or((tail, ""));
        output.push_str(prefix);
        match expression.split_once('.') {
            Some((_, name)) => output.extend(["${{ needs.", name, " }}"]),
            // The expression refers to no result.
            None => output.extend([OPEN, expression, CLOSE]),
        }
        remainder = tail;
    }
    output + remainder
}

/// A text in which each result is replaced.
pub(super) fn renamed(text: &str, name: &mut dyn FnMut(&Deferred) -> String) -> String {
    let mut output = String::new();
    let mut remainder = text;
    while let Some((prefix, tail)) = remainder.split_once(OPEN) {
        let (expression, tail) = tail.split_once(CLOSE).unwrap_or((tail, ""));
        output.push_str(prefix);
        match Deferred::parse(expression) {
            Some(deferred) => output.extend([OPEN, &name(&deferred), CLOSE]),
            None => output.extend([OPEN, expression, CLOSE]),
        }
        remainder = tail;
    }
    output + remainder
}

/// The artifacts that a job with these parameters takes: the keys of the jobs that leave them, and their names.
pub fn taken(values: &Values) -> BTreeSet<(Key, String)> {
    fn walk(value: &Value, artifacts: &mut BTreeSet<(Key, String)>) {
        match value {
            Value::Text(text) => {
                for part in text.split(OPEN).skip(1) {
                    let flow = part.split_once(CLOSE).and_then(|(expression, _)| Deferred::parse(expression));
                    let flow = flow.filter(|flow| flow.product == Product::Artifact);
                    artifacts.extend(flow.map(|flow| (flow.key, flow.name)));
                }
            }
            Value::List(items) => items.iter().for_each(|item| walk(item, artifacts)),
            Value::Map(entries) => entries.values().for_each(|value| walk(value, artifacts)),
            _ => {}
        }
    }
    let mut artifacts = BTreeSet::new();
    for value in values.values() {
        walk(value, &mut artifacts);
    }
    artifacts
}

/// True if a value refers to a result.
pub fn waits(value: &Value) -> bool {
    match value {
        Value::Text(text) => is_open(text),
        Value::List(items) => items.iter().any(waits),
        Value::Map(entries) => entries.values().any(waits),
        _ => false,
    }
}

/// Checks the known part of a value: a deferred result must be of a kind that the parameter accepts. Numbers for a
/// program are in a spelling.
pub fn check(param: &Param, value: &Value, spelling: Spelling) -> Result<Value, ParamError> {
    if !waits(value) {
        return param.spelled(value, spelling);
    }
    if let (Kind::Either(_, nested), Value::Map(_) | Value::List(_)) = (param.kind, value) {
        return check(&Param { kind: *nested, bounds: None, ..*param }, value, spelling);
    }
    let part = |kind: &'static Kind| Param { kind: *kind, nullable: false, bounds: None, ..*param };
    match (param.kind, value) {
        (kind, Value::Text(text)) if takes(kind, text) => Ok(value.clone()),
        // A single result becomes a list of one.
        (Kind::List(kind), Value::Text(text)) if takes(*kind, text) => Ok(Value::List(vec![value.clone()])),
        (Kind::Any, Value::List(items)) => {
            let items = items.iter().map(|item| check(&part(&Kind::Any), item, spelling));
            Ok(Value::List(items.collect::<Result<_, _>>()?))
        }
        (Kind::Any, Value::Map(entries)) => {
            let entries =
                entries.iter().map(|(key, value)| Ok((key.clone(), check(&part(&Kind::Any), value, spelling)?)));
            Ok(Value::Map(entries.collect::<Result<_, ParamError>>()?))
        }
        (Kind::List(kind), Value::List(items)) => {
            let items = items.iter().map(|item| check(&part(kind), item, spelling));
            Ok(Value::List(items.collect::<Result<_, _>>()?))
        }
        (Kind::Map(kind), Value::Map(entries)) => {
            let entries = entries.iter().map(|(key, value)| Ok((key.clone(), check(&part(kind), value, spelling)?)));
            Ok(Value::Map(entries.collect::<Result<_, ParamError>>()?))
        }
        (kind, Value::Text(text)) => {
            let found = match Deferred::whole(text).map(|flow| flow.product) {
                Some(Product::Metric) => "a metric",
                Some(Product::Curve) => "a curve",
                Some(Product::Artifact) => "an artifact's path",
                None => "text with results",
            };
            Err(ParamError::Result { expected: kind.to_string(), found })
        }
        (kind, _) => Err(ParamError::Type { expected: kind.to_string(), found: value.clone() }),
    }
}

/// True if a parameter of this kind accepts such a result.
fn takes(kind: Kind, text: &str) -> bool {
    if let Kind::Either(plain, _) = kind {
        return takes(*plain, text);
    }
    match Deferred::whole(text).map(|flow| flow.product) {
        // A curve is a map, which no text can contain.
        None if has_curve(text) => false,
        _ if kind == Kind::Any => true,
        Some(Product::Metric) => matches!(kind, Kind::Int | Kind::Float | Kind::Scalar | Kind::Variable | Kind::Text),
        Some(Product::Curve) => false,
        Some(Product::Artifact) | None => matches!(kind, Kind::Path(_) | Kind::Scalar | Kind::Variable | Kind::Text),
    }
}

/// True if a text contains a curve.
fn has_curve(text: &str) -> bool {
    let mut parts = text.split(OPEN).skip(1).filter_map(|part| Deferred::parse(part.split_once(CLOSE)?.0));
    parts.any(|flow| flow.product == Product::Curve)
}

/// Parameters in the form in which their combination is checked: an artifact has its name, a metric is unknown.
pub fn preview(values: &Values) -> Cow<'_, Values> {
    fn shown(value: &Value) -> Value {
        match value {
            Value::Text(text) => match Deferred::whole(text) {
                Some(Deferred { product: Product::Artifact, name, .. }) => Value::Text(name),
                _ => value.clone(),
            },
            Value::List(items) => Value::List(items.iter().map(shown).collect()),
            other => other.clone(),
        }
    }
    if !values.values().any(waits) {
        return Cow::Borrowed(values);
    }
    Cow::Owned(values.iter().map(|(name, value)| (name.clone(), shown(value))).collect())
}

/// The parameters of a job whose needed jobs are done. `look_up` gives a job's record and its folder's path.
pub fn resolve(
    task: &TaskInfo,
    values: &Values,
    look_up: &mut dyn FnMut(Key) -> Option<(Record, std::path::PathBuf)>,
) -> Result<Values, Unresolved> {
    let mut resolved_values = values.clone();
    for param in task.params() {
        let Some(value) = resolved_values.get_mut(param.name) else { continue };
        if waits(value) {
            let literal = resolved_value(value, look_up)?;
            let checked_value = param.spelled(&literal, Spelling::Written);
            *value = checked_value.map_err(|error| Unresolved::Value { param: param.name, error })?;
        }
    }
    Ok(resolved_values)
}

fn resolved_value(
    value: &Value,
    look_up: &mut dyn FnMut(Key) -> Option<(Record, std::path::PathBuf)>,
) -> Result<Value, Unresolved> {
    match value {
        Value::Text(text) => match Deferred::whole(text) {
            Some(flow) => result(&flow, look_up),
            None => {
                let mut output = String::new();
                let mut remainder = text.as_str();
                while let Some((prefix, tail)) = remainder.split_once(OPEN) {
                    let (expression, tail) = tail.split_once(CLOSE).unwrap_or((tail, ""));
                    output.push_str(prefix);
                    match Deferred::parse(expression) {
                        Some(flow) => output.push_str(&result(&flow, look_up)?.to_string()),
                        None => output.extend([OPEN, expression, CLOSE]),
                    }
                    remainder = tail;
                }
                output.push_str(remainder);
                Ok(Value::Text(output))
            }
        },
        Value::List(items) => {
            items.iter().map(|item| resolved_value(item, look_up)).collect::<Result<_, _>>().map(Value::List)
        }
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| Ok((key.clone(), resolved_value(value, look_up)?)));
            entries.collect::<Result<_, _>>().map(Value::Map)
        }
        other => Ok(other.clone()),
    }
}

fn result(
    flow: &Deferred,
    look_up: &mut dyn FnMut(Key) -> Option<(Record, std::path::PathBuf)>,
) -> Result<Value, Unresolved> {
    let (record, folder) = look_up(flow.key).ok_or_else(|| Unresolved::Gone(flow.key.short()))?;
    let list = |names: Vec<&String>| {
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (label, name) = (record.label.clone(), flow.name.clone());
    match flow.product {
        Product::Metric => match record.outcome.metrics.get(&flow.name) {
            Some(metric) => Ok(Value::number(metric.value)),
            None => Err(Unresolved::Metric { label, name, known: list(record.outcome.metrics.keys().collect()) }),
        },
        Product::Curve => match record.outcome.curves.get(&flow.name) {
            Some(curve) => Ok(steps_and_values(curve)),
            None => Err(Unresolved::Curve { label, name, known: list(record.outcome.curves.keys().collect()) }),
        },
        Product::Artifact => match record.outcome.artifacts.get(&flow.name) {
            Some(path) => Ok(Value::Text(absolute(&folder.join(path)))),
            None => Err(Unresolved::Artifact { label, name, known: list(record.outcome.artifacts.keys().collect()) }),
        },
    }
}

/// A curve as a value: a map of `at` and `values`, as in its record.
fn steps_and_values(curve: &Curve) -> Value {
    let at = curve.at.iter().map(|step| i64::try_from(*step).map_or(Value::Float(*step as f64), Value::Int));
    let values = curve.values.iter().map(|value| Value::number(*value));
    Value::Map([("at".into(), Value::List(at.collect())), ("values".into(), Value::List(values.collect()))].into())
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use sweep_job::Task;

    use super::*;

    fn flow(product: Product, name: &str) -> Deferred {
        Deferred { key: "ab".repeat(32).parse().unwrap(), product, name: name.into() }
    }

    #[test]
    fn a_placeholder_is_read_back() {
        for flow in [flow(Product::Metric, "time.run"), flow(Product::Artifact, "out/result.v1.json")] {
            let text = flow.placeholder();
            assert_eq!(Deferred::whole(&text), Some(flow));
            assert!(is_open(&text));
            assert_eq!(Deferred::whole(&format!("{text}{text}")), None, "two are not one");
        }
    }

    #[test]
    fn only_what_a_kind_can_be_is_taken() {
        let param = |task: &str, name: &str| Task::info(task).unwrap().param(name).unwrap();
        let check_value = |param: &Param, value: &Value| check(param, value, Spelling::Canonical);
        let metric = Value::Text(flow(Product::Metric, "loss").placeholder());
        let artifact = Value::Text(flow(Product::Artifact, "checkpoint").placeholder());
        assert_eq!(check_value(param("train", "lr"), &metric), Ok(metric.clone()));
        assert!(check_value(param("train", "lr"), &artifact).is_err());
        assert_eq!(check_value(param("eval", "init"), &artifact), Ok(artifact.clone()));
        assert!(check_value(param("eval", "init"), &metric).is_err());
        assert!(check_value(param("train", "prune"), &metric).is_err(), "a word is no number");
        assert_eq!(
            check_value(param("command", "inputs"), &artifact),
            Ok(Value::List(vec![artifact])),
            "a list of one"
        );
    }
}
