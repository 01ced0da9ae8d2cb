//! The copy of a program's file of settings, with the values of `set`.
//!
//! The program finds the copy in the place of the file. Where it has no view of its project, or the file is outside of that, the copy is
//! elsewhere under the same name, and arguments with the path of the file get the path of the copy.

use std::{
    io,
    path::{Path, PathBuf},
    process,
};

use fs_err as fs;
use sweep_base::settings::Settings;
use sweep_job::{Failure, FailureKind, Job, tasks::Command};

use super::place::Place;
use crate::store::CONTRACT;

/// The variable with the path of the copy.
const VARIABLE: &str = "SWEEP_SETTINGS";

/// The copy of a file of settings.
pub(super) struct SettingsCopy {
    /// Where the program finds it.
    seen: PathBuf,
    /// Where it is outside of a view.
    file: PathBuf,
    /// The file, if the copy is not in its place.
    moved_from: Option<PathBuf>,
}

impl SettingsCopy {
    /// Writes the copy; `None` for a program without one.
    ///
    /// # Errors
    /// The file lacks a key of `set`, or the copy cannot be written.
    pub(super) fn write(command: &Command, job: &Job, place: &Place) -> Result<Option<Self>, Failure> {
        let Some(source) = command.settings.as_ref().map(|settings| settings.0.as_path()) else { return Ok(None) };
        let failure = |kind, reason: &dyn std::fmt::Display| Failure {
            kind,
            message: format!("the copy of the settings `{}` cannot be made: {reason}", source.display()),
        };
        let text = Settings::read(source).and_then(|settings| settings.with(&command.set));
        let text = text.map_err(|error| failure(FailureKind::Input, &error))?;
        let copy = match place.in_place_of(source, job) {
            Some((file, seen)) => Self { seen, file, moved_from: None },
            None => {
                let name = source.file_name().unwrap_or_default();
                let file = job.scratch.join(CONTRACT).join("settings").join(name);
                Self { seen: file.clone(), file, moved_from: Some(source.to_owned()) }
            }
        };
        copy.put(&text, source).map_err(|error| failure(FailureKind::Io, &error))?;
        Ok(Some(copy))
    }

    fn put(&self, text: &str, source: &Path) -> io::Result<()> {
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        // Processes of an earlier attempt may still have the earlier copy open.
        let _ = fs::remove_file(&self.file);
        fs::write(&self.file, text)?;
        fs::set_permissions(&self.file, fs::metadata(source)?.permissions())
    }

    /// The path of the copy in the folder that contains the files that a program writes.
    pub(super) fn inside(&self, written: &Path) -> Option<&str> {
        self.file.strip_prefix(written).ok()?.to_str()
    }

    /// The arguments of a program that starts in the folder `working`.
    ///
    /// # Errors
    /// The copy is not in the place of the file, and no argument names the file.
    pub(super) fn arguments(&self, argv: Vec<String>, working: &Path) -> Result<Vec<String>, Failure> {
        let Some(source) = &self.moved_from else { return Ok(argv) };
        let real = fs::canonicalize(source).ok();
        let is_file = |path: &str| {
            path.ends_with(&*source.file_name().unwrap_or_default().to_string_lossy())
                && fs::canonicalize(working.join(path)).is_ok_and(|path| Some(path) == real)
        };
        let (mut replaced, mut is_named) = (Vec::new(), false);
        for argument in argv {
            let (before, path) = match argument.split_once('=') {
                Some((name, path)) if is_file(path) => (format!("{name}="), path),
                _ => (String::new(), argument.as_str()),
            };
            is_named |= argument.contains(VARIABLE);
            if is_file(path) {
                is_named = true;
                replaced.push(format!("{before}{}", self.seen.display()));
            } else {
                replaced.push(argument);
            }
        }
        if is_named {
            return Ok(replaced);
        }
        Err(Failure {
            kind: FailureKind::Input,
            message: format!(
                "the program would not find the copy of the settings `{}`: this machine has no private views of folders, or the file is \
                 outside of the project; write `\"${VARIABLE}\"` in the command where the path of the file belongs",
                source.display()
            ),
        })
    }

    /// Sets the variable with the path of the copy.
    pub(super) fn describe(&self, program: &mut process::Command) {
        program.env(VARIABLE, &self.seen);
    }
}
