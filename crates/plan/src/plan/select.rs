//! `--only`, and `only` of a sweep file: a part of a plan, with its dependencies.

use std::collections::HashSet;

use super::{JobId, Plan, Point, Study};
use crate::{
    format::clean,
    recipe::{Spanned, Step, is_name, suggest, typed_value},
};

/// A selection that selects nothing.
#[derive(Debug, thiserror::Error)]
#[error("{place}`only` {selection} selects nothing: {reason}")]
pub struct NothingSelected {
    place: String,
    selection: String,
    reason: String,
}

impl Plan {
    /// The selected jobs and the jobs that they need. `--only` or a sweep file's `only` selects; without them, every job is
    /// selected except the jobs for shared states ([`Plan::worth_sharing`]).
    ///
    /// A selection is a step, or a step and values on some of its axes: `train`, `train/prune=bitter7,seed=0`. The
    /// selection applies to every recipe that has the step; `bitter:train` applies to the recipe `bitter`.
    pub fn selection(&self) -> Result<HashSet<JobId>, NothingSelected> {
        if self.only.is_empty() {
            return Ok(self.jobs().map(|(id, _)| id).filter(|id| !self.is_shared(*id)).collect());
        }
        let mut selected_jobs = Vec::new();
        for selection in &self.only {
            selected_jobs.extend(self.selected(selection)?);
        }
        Ok(self.with_needs(selected_jobs).into_iter().collect())
    }

    /// True if a step is wanted, or a part of it.
    pub fn wants(&self, study: usize, step: usize) -> bool {
        let recipe = &self.studies[study].recipe;
        let names = |selection: &Spanned<String>| {
            let (step_name, _) = selection.value.split_once('/').unwrap_or((&selection.value, ""));
            let (recipe_name, name) =
                step_name.split_once(':').map_or((None, step_name), |(recipe_name, name)| (Some(recipe_name), name));
            recipe_name.is_none_or(|recipe_name| recipe_name == recipe.name) && name == recipe.steps[step].name.value
        };
        self.only.is_empty() || self.only.iter().any(names)
    }

    fn selected(&self, selection: &Spanned<String>) -> Result<Vec<JobId>, NothingSelected> {
        let no_selection = |reason: String| {
            // A selection from the command line needs no place.
            let place = Some(self.sources.location(selection.span)).filter(|place| !place.starts_with("--"));
            let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
            NothingSelected { place, selection: clean(&selection.value).into_owned(), reason }
        };
        let (step, values) = selection.value.split_once('/').unwrap_or((&selection.value, ""));
        let (study, name) = step.split_once(':').map_or((None, step), |(study, name)| (Some(study), name));
        let studies: Vec<&Study> =
            self.studies.iter().filter(|candidate| study.is_none_or(|name| candidate.recipe.name == name)).collect();
        if studies.is_empty() {
            let recipes = self.studies.iter().map(|study| study.recipe.name.as_str());
            return Err(no_selection(suggest(study.unwrap_or_default(), "recipes", recipes).unwrap_or_default()));
        }
        let steps: Vec<(&Step, &[(Point, JobId)])> = studies
            .iter()
            .filter_map(|study| study.recipe.step(name).map(|(index, step)| (step, study.steps[index].as_slice())))
            .collect();
        if steps.is_empty() {
            let steps = studies.iter().flat_map(|study| &study.recipe.steps).map(|step| step.name.value.as_str());
            return Err(no_selection(suggest(name, "steps", steps).unwrap_or_else(|| "there are no steps".into())));
        }
        let points = || steps.iter().flat_map(|(_, points)| *points);
        // A job's name for output, whatever characters it contains.
        let exact_matches: Vec<JobId> = points()
            .filter(|(point, _)| !values.is_empty() && point.to_string() == values)
            .map(|(_, id)| *id)
            .collect();
        if !exact_matches.is_empty() {
            return Ok(exact_matches);
        }
        let mut conditions = Vec::new();
        for part in parts(values) {
            let Some((axis, value)) = part.split_once('=') else {
                return Err(no_selection(format!("write `{name}/axis=value`, not `{}`", clean(part))));
            };
            if !steps.iter().any(|(step, _)| step.axes().contains(&axis)) {
                let axes = suggest(axis, "axes", steps.iter().flat_map(|(step, _)| step.axes()));
                return Err(no_selection(axes.unwrap_or_else(|| format!("step `{name}` has no axes"))));
            }
            conditions.push((axis, value));
        }
        let matches = |point: &Point| conditions.iter().all(|(axis, value)| point.is_at(axis, value));
        let jobs: Vec<JobId> = points().filter(|(point, _)| matches(point)).map(|(_, id)| *id).collect();
        if jobs.is_empty() {
            return Err(no_selection(format!(
                "no point of `{name}` has these values; `sweep plan --list` lists the points"
            )));
        }
        Ok(jobs)
    }
}

/// True if a text on the command line means a job with this label, with the axes in any order and the values in any
/// spelling: `train/lr=1e-4,seed=0` for `train/seed=0,lr=0.0001`. The form that progress shows, `train seed=0 lr=0.0001`,
/// means the same job.
pub fn means(label: &str, typed: &str) -> bool {
    let split = |text: &str| {
        let text = if text.contains('/') { text.to_owned() } else { spaced(text) };
        let (step, values) = text.split_once('/').map_or((text.as_str(), ""), |(step, values)| (step, values));
        let mut values: Vec<(String, String)> = parts(values)
            .into_iter()
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(axis, value)| (axis.to_owned(), value.to_owned()))
            .collect();
        values.sort();
        (step.to_owned(), values)
    };
    let ((step, values), (typed_step, typed_values)) = (split(label), split(typed));
    let is_same = |((axis, value), (other, typed)): (&(String, String), &(String, String))| {
        axis == other && (value == typed || typed_value(value) == typed_value(typed))
    };
    step == typed_step && values.len() == typed_values.len() && values.iter().zip(&typed_values).all(is_same)
}

/// The step of a label, without the recipe in front of it, and its axes with their values.
pub fn axes_of(label: &str) -> (&str, Vec<(&str, &str)>) {
    let (step, values) = label.split_once('/').unwrap_or((label, ""));
    let step = step.rsplit_once(':').map_or(step, |(_, step)| step);
    (step, parts(values).into_iter().filter_map(|part| part.split_once('=')).collect())
}

/// `train/a=1,b=2` for `train a=1 b=2`.
fn spaced(text: &str) -> String {
    let mut words = text.split(' ');
    let first_word = words.next().unwrap_or_default().to_owned();
    let mut values = words.fold(String::new(), |values, word| {
        let is_assignment = word.split_once('=').is_some_and(|(axis, _)| is_name(axis));
        let separator = if values.is_empty() {
            ""
        } else if is_assignment {
            ","
        } else {
            " "
        };
        values + separator + word
    });
    if !values.is_empty() {
        values.insert(0, '/');
    }
    first_word + &values
}

/// The values of a selection: `axis=value`, separated by commas. A value may contain commas: text after a comma that
/// begins no axis belongs to the value before it.
fn parts(values: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (comma, _) in values.match_indices(',') {
        let next = values[comma + 1..].split(',').next().unwrap_or_default();
        if next.split_once('=').is_some_and(|(axis, _)| is_name(axis)) {
            parts.push(&values[start..comma]);
            start = comma + 1;
        }
    }
    parts.push(values[start..].trim_end_matches(','));
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_meant_in_any_spelling_of_its_values() {
        for (label, typed, expected) in [
            ("a/lr=0.0001", "a/lr=1e-4", true),
            ("a/lr=2,seed=0", "a/seed=0,lr=2.0", true),
            ("a/lr=1000000", "a lr=1e6", true),
            ("a/lr=1000000,n=x y", "a lr=1e6 n=x y", true),
            ("a/betas=[0.9, 0.95]", "a/betas=[0.90,0.95]", true),
            ("r:a/lr=2", "r:a/lr=2.0", true),
            ("a/v=", "a/v=", true),
            ("a/v=null", "a/v=", false),
            ("a/v=#x", "a/v=#y", false),
            ("a/lr=2", "b/lr=2.0", false),
            ("a/lr=2", "a/lr=2.0,seed=0", false),
            ("a", "a", true),
            ("a", "a/lr=2", false),
        ] {
            assert_eq!(means(label, typed), expected, "{label} {typed}");
        }
    }

    #[test]
    fn values_may_have_commas() {
        for (values, expected) in [
            ("", &[][..]),
            ("prune=none", &["prune=none"]),
            ("prune=none,seed=0", &["prune=none", "seed=0"]),
            ("betas=0.9,0.95,seed=0", &["betas=0.9,0.95", "seed=0"]),
            ("seed=0,", &["seed=0"]),
            ("none", &["none"]),
        ] {
            assert_eq!(parts(values), expected, "{values}");
        }
        assert_eq!(axes_of("r:train/betas=0.9,0.95,seed=0"), ("train", vec![("betas", "0.9,0.95"), ("seed", "0")]));
        assert_eq!(axes_of("train"), ("train", vec![]));
    }
}
