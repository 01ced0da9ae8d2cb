//! The present environment of a program, compared with the environment that a record names.
//!
//! The environment decides about the validity of a record only where a recipe has `environment: strict`.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use sweep_job::{FileStamp, ParamType as _, Values, tasks::EnvironmentRole};

use super::Digests;
use crate::{
    host::{elf, started, system},
    record::{ABSENT, Environment, Part, path_text},
};

/// Folder of the environments beside the sets of files.
pub const ENVIRONMENTS: &str = "environments";
/// Name of the path at which the program of the recipe is found.
pub const COMMAND: &str = "command";
/// Name of the container's image.
const CONTAINER: &str = "container";
/// Name of an unknown environment.
const WHOLE: &str = "environment";
/// The file of the GNU C library.
const LIBC: &str = "libc.so.6";

/// Programs and libraries that have been examined, by their paths.
#[derive(Debug, Default)]
pub(super) struct Parts(HashMap<PathBuf, (FileStamp, Part)>);

/// The part of a job's present environment that is known without an observation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Present {
    /// Path at which the program of the recipe is found; `None` if it is not found, or not outside of the project.
    command: Option<String>,
}

impl Present {
    /// Returns the present environment of a job with the parameters `values`, if the job's records depend on it. `project` is
    /// the folder of its project.
    pub(crate) fn of(values: &Values, project: &Path) -> Option<Self> {
        let role = values.get("environment").and_then(<Option<EnvironmentRole>>::from_value).flatten();
        (role == Some(EnvironmentRole::Strict)).then(|| Self { command: command(values, project) })
    }
}

/// The path at which this machine finds the program of a job, unless it is in the project or relative.
pub fn command(values: &Values, project: &Path) -> Option<String> {
    // A relative path leads from the job's folder, which is another one each time.
    let program = started::program(values, Path::new(""))?;
    let is_outside = program.is_absolute() && !program.starts_with(project);
    is_outside.then(|| path_text(&program))
}

impl Digests {
    /// The identity of a program or library, and the state in which it has it. The file is read once for each of its states.
    pub fn part(&mut self, path: &Path) -> io::Result<(FileStamp, Part)> {
        let stamp = FileStamp::of(&fs::metadata(path)?);
        if let Some(entry) = self.parts.0.get(path).filter(|(old_stamp, _)| *old_stamp == stamp) {
            return Ok(entry.clone());
        }
        let mut part = match elf::build_id(path)? {
            Some(id) => Part::of_build(&id),
            None => Part::of_content(&self.of_file_now(path)?),
        };
        if path.file_name().is_some_and(|name| name == LIBC) {
            part.version = fs::read(path).ok().and_then(|content| elf::libc_version(&content));
        }
        self.parts.0.insert(path.to_owned(), (stamp, part.clone()));
        Ok((stamp, part))
    }
}

/// Returns the names of the parts of an environment with their recorded states. `None` has one part: the unknown
/// environment.
pub fn states(environment: Option<&Environment>) -> BTreeMap<String, String> {
    let Some(environment) = environment else { return [(WHOLE.to_owned(), "not recorded".to_owned())].into() };
    let mut states: BTreeMap<String, String> = environment.parts().map(|(name, _, id)| (name, id.to_owned())).collect();
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| ABSENT.to_owned());
    states.insert(COMMAND.to_owned(), or_none(&environment.command));
    states.insert(CONTAINER.to_owned(), or_none(&environment.container));
    states
}

/// Returns these parts with their present states. The parts of another machine's environment cannot be compared.
pub(super) fn states_now(
    environment: Option<&Environment>,
    present: &Present,
    digests: &mut Digests,
) -> BTreeMap<String, String> {
    let Some(environment) = environment else { return [(WHOLE.to_owned(), "recorded".to_owned())].into() };
    if environment.is_elsewhere {
        return states(Some(environment));
    }
    let mut states = BTreeMap::new();
    for (name, path, _) in environment.parts() {
        let part = digests.part(&crate::record::text_path(path));
        states.insert(name, part.map_or_else(|_| ABSENT.to_owned(), |(_, part)| part.id));
    }
    let or_none = |value: Option<String>| value.unwrap_or_else(|| ABSENT.to_owned());
    states.insert(COMMAND.to_owned(), or_none(present.command.clone()));
    states.insert(CONTAINER.to_owned(), or_none(system::container()));
    states
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_file_is_read_once_for_each_of_its_states() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        let mut digests = Digests::default();
        let mut part = || digests.part(&file).unwrap().1;
        let write = |text: &str, age: u64| {
            fs::write(&file, text).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        };
        write("one", 0);
        let original = part();
        assert!(original.id.starts_with("content:"), "{original:?}");
        write("two", 0);
        assert_eq!(part(), original, "size, time and inode are the same");
        write("two", 1);
        assert_ne!(part(), original);
        fs::remove_file(&file).unwrap();
        assert!(digests.part(&file).is_err());
    }

    #[test]
    fn an_environment_of_another_machine_is_not_compared() {
        let mut environment = Environment::default();
        environment.programs.insert("/none/python".to_owned(), Part::of_build("aa"));
        environment.command = Some("/none/python".to_owned());
        let now =
            |environment: &Environment| states_now(Some(environment), &Present::default(), &mut Digests::default());
        assert_eq!(now(&environment)["program /none/python"], ABSENT);
        assert_eq!(now(&environment)[COMMAND], ABSENT);
        environment.is_elsewhere = true;
        assert_eq!(now(&environment), states(Some(&environment)));
    }
}
