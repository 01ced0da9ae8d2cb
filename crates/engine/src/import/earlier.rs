//! The runs of an earlier import, from `NAME.runs.yaml`, which the next one replaces.

use std::{collections::BTreeSet, io, path::Path};

use serde_json::Value as Json;

use super::{ImportError, Study, study::STEP, text};

/// The runs that a recipe has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The values of the task's parameter `run`.
    references: BTreeSet<String>,
    /// The names of the parameters of its jobs.
    params: BTreeSet<String>,
}

impl Earlier {
    /// Reads the recipe of an earlier import. Without a recipe, or if it does not have the form of an import, there are
    /// no runs.
    pub fn read(path: &Path) -> Result<Self, ImportError> {
        let text = match text(path) {
            Err(ImportError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            text => text?,
        };
        let recipe: Json = serde_saphyr::from_str(&text).unwrap_or_default();
        let step = recipe.get("steps").and_then(|steps| steps.get(STEP));
        let runs = step.and_then(|step| step.pointer("/matrix/include")).and_then(Json::as_array);
        let references = runs.into_iter().flatten().filter_map(|run| run.get("run")?.as_str()).map(str::to_owned);
        let params = step.and_then(|step| step.pointer("/with/params")).and_then(Json::as_object);
        let params = params.into_iter().flat_map(|params| params.keys()).cloned();
        Ok(Self { references: references.collect(), params: params.collect() })
    }

    /// The number of its runs that a study has no more. An error if that are all of them: they are of another store.
    pub fn gone(&self, study: &Study, path: &Path) -> Result<usize, ImportError> {
        let known: BTreeSet<&str> = study.references.iter().map(|reference| identifier(reference)).collect();
        let number = self.references.iter().filter(|reference| !known.contains(identifier(reference))).count();
        if number > 0 && number == self.references.len() {
            return Err(ImportError::OtherStore(path.to_owned()));
        }
        Ok(number)
    }

    /// True if the jobs of a study have other parameters, which are a part of the keys of its records.
    pub fn has_other_params(&self, study: &Study) -> bool {
        let params: BTreeSet<&String> = study.params.iter().flat_map(|params| params.keys()).collect();
        !self.references.is_empty() && !self.params.iter().eq(params)
    }

    /// True for a run that has not changed since.
    pub fn has(&self, reference: &str) -> bool {
        self.references.contains(reference)
    }
}

/// The identifier of a run in its reference, without the digest, which differs between versions of the run.
fn identifier(reference: &str) -> &str {
    let end = reference.rfind(['@', '…']).unwrap_or(reference.len());
    &reference[..end]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sweep_job::Value;

    use super::*;
    use crate::import::{Run, Runs, Wishes};

    /// The study of runs with these identifiers and learning rates.
    fn study(runs: &[(&str, f64)], axes: &[&str]) -> Study {
        let run = |(id, lr): &(&str, f64)| {
            let params = [("lr", Value::Float(*lr)), ("depth", Value::Float(lr * 10.0))];
            let params: BTreeMap<String, Value> = params.map(|(name, value)| (name.to_owned(), value)).into();
            let mut run = Run { id: (*id).to_owned(), params, ..Run::default() };
            run.conclude("loss\nsteps: {}", 1.0);
            run
        };
        let mut runs = Runs { runs: runs.iter().map(run).collect(), ..Runs::default() };
        let axes = axes.iter().map(|axis| (*axis).to_owned()).collect();
        Study::new(&mut runs, &Wishes { axes, ..Wishes::default() }).unwrap()
    }

    #[test]
    fn runs_of_an_earlier_import_are_known_by_their_identifiers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n.runs.yaml");
        assert_eq!(Earlier::read(&path).unwrap(), Earlier::default());
        let first = study(&[("a@b", 0.1), ("c", 0.2), ("d", 0.3)], &["lr"]);
        std::fs::write(&path, first.runs_recipe("csv", "n", "3 runs")).unwrap();
        let earlier = Earlier::read(&path).unwrap();
        assert!(first.references.iter().all(|reference| earlier.has(reference)));
        assert!(!earlier.has_other_params(&first));
        let changed = study(&[("a@b", 0.5), ("c", 0.2), ("e", 0.6)], &[]);
        assert!(earlier.has_other_params(&changed));
        assert_eq!(earlier.gone(&changed, &path).unwrap(), 1, "`a@b` has changed, and `d` is gone");
        assert!(earlier.gone(&study(&[("e", 0.1), ("f", 0.2)], &[]), &path).is_err());
    }

    #[test]
    fn a_name_with_a_line_break_stays_in_its_comment() {
        let recipe = study(&[("a", 0.1), ("b", 0.2)], &[]).recipe("n", "n.yaml\nsteps: {}", "n.runs.yaml");
        assert!(!recipe.lines().any(|line| line.starts_with("steps")), "{recipe}");
    }
}
