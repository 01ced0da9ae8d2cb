//! The scale of a claim: the sizes from which it can be judged, compared with the sizes of its jobs.

use std::path::Path;

use sweep_job::{Value, Values, tasks::dimension};

use crate::{
    analysis::evidence::Source,
    plan::{JobId, Point},
    recipe::{Claim, Least},
};

/// The value of a job.
enum Here {
    Known(Value),
    /// A job without a result may still measure it.
    NotYet,
    Unknown,
}

/// Reason why a claim cannot be judged at the sizes of its jobs, if there is one.
pub(super) fn too_small(claim: &Claim, source: Source<'_>) -> Option<String> {
    let jobs: Vec<(&Point, JobId)> = super::selected_jobs(claim, source.study).collect();
    misses(&claim.scale, &jobs, source)
}

/// Reason why jobs are not of these sizes, if there is one.
pub(in crate::analysis) fn misses(scale: &[Least], jobs: &[(&Point, JobId)], source: Source<'_>) -> Option<String> {
    let (mut about, mut present) = (Vec::new(), Vec::new());
    for Least { name, value } in scale {
        let name = name.value.as_str();
        let mut missed: Option<Option<Value>> = None;
        for (point, job) in jobs {
            match value_of(name, point, *job, source) {
                Here::Known(found) if !reaches(&found, value) => {
                    let lower = |known: &Value| found.as_f64() < known.as_f64();
                    if missed.as_ref().is_none_or(|missed| missed.as_ref().is_none_or(lower)) {
                        missed = Some(Some(found));
                    }
                }
                Here::Unknown => missed = missed.or(Some(None)),
                Here::Known(_) | Here::NotYet => {}
            }
        }
        let Some(missed) = missed else { continue };
        about.push(match value {
            Value::Text(text) => format!("{name} {text}"),
            number => format!("{name} of {number} and more"),
        });
        present.push(missed.map_or_else(|| format!("an unknown {name}"), |found| short(&found)));
    }
    (!about.is_empty())
        .then(|| format!("it is about {}; this was measured at {}", about.join(" and "), present.join(" and ")))
}

/// A job's parameter, axis or metric as a number; `None` if it is not a number.
pub(in crate::analysis) fn size_of(name: &str, point: &Point, job: JobId, source: Source<'_>) -> Option<f64> {
    match value_of(name, point, job, source) {
        Here::Known(value) => value.as_f64().filter(|size| size.is_finite()),
        Here::NotYet | Here::Unknown => None,
    }
}

/// A job's parameter, axis or metric.
fn value_of(name: &str, point: &Point, job: JobId, source: Source<'_>) -> Here {
    let values = source.study.values.get(&job);
    // A parameter without a value may follow from another one.
    let value_in = |values: &Values| values.get(name).filter(|value| **value != Value::Null).cloned();
    let param = values.and_then(|values| value_in(values).or_else(|| dimension(values, name)));
    let value = param.or_else(|| point.get(name).cloned());
    let measured = source.measured.get(&job);
    let metric = || measured?.metrics.get(name).map(|metric| Value::Float(metric.value));
    match value.or_else(metric) {
        Some(value) => Here::Known(value),
        None if measured.is_none() => Here::NotYet,
        None => Here::Unknown,
    }
}

/// True if a value is at least this number, or equals this text. A path also equals its last part.
fn reaches(found: &Value, least: &Value) -> bool {
    match (found, least) {
        (Value::Text(found), Value::Text(wanted)) => {
            let path = Path::new(found);
            found == wanted || [path.file_name(), path.file_stem()].into_iter().flatten().any(|part| *part == **wanted)
        }
        (Value::Bool(found), Value::Text(wanted)) => found.to_string() == *wanted,
        _ => match (found.as_f64(), least.as_f64()) {
            (Some(found), Some(least)) => found >= least,
            _ => false,
        },
    }
}

/// A value for people: the last part of a path.
fn short(value: &Value) -> String {
    match value {
        Value::Text(text) => {
            let name = Path::new(text).file_name();
            name.map_or_else(|| text.clone(), |name| name.to_string_lossy().into_owned())
        }
        Value::Float(number) if *number == number.round() && number.abs() < 1e15 => format!("{number:.0}"),
        other => other.to_string(),
    }
}
