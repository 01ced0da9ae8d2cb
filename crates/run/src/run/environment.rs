//! The environment of a job, from the report of its worker.

use std::path::Path;

use sweep_job::{Observed, Values};

use crate::{
    host::system,
    plan::{Digests, environment::command},
    record::{Environment, Interpreter, Part, path_text, text_path},
};

/// The environment that a program with these parameters was observed to use; `None` if it was not observed.
///
/// Files are looked at once for each of their states, so that a job whose environment is known costs one `stat` per
/// file.
pub(super) fn of(
    observed: &Observed,
    values: &Values,
    project: &Path,
    is_hosted: bool,
    interpreter: Option<&Interpreter>,
    digests: &mut Digests,
) -> Option<Environment> {
    let mut environment = Environment::default();
    for (path, file) in observed.outside.as_ref()? {
        let part = match digests.part(&text_path(path)) {
            Ok((stamp, part)) if stamp == file.stamp => part,
            // The file has been replaced since it was used.
            _ => Part::unknown(),
        };
        let kind = if file.is_started { &mut environment.programs } else { &mut environment.libraries };
        kind.insert(path.clone(), part);
    }
    let versions = observed.packages.iter().map(|(name, package)| (name.clone(), package.version.clone()));
    environment.packages = versions.collect();
    environment.command = command(values, project);
    if let Some(Interpreter { path, python: Some(version), .. }) = interpreter
        && let Some(part) = environment.programs.get_mut(&path_text(Path::new(path)))
    {
        part.version = Some(version.clone());
    }
    environment.container = system::container();
    environment.is_elsewhere = is_hosted;
    Some(environment)
}
