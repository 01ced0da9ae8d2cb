//! The folder that a program works in: its inputs are links, and only the outputs are kept.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use glob::{MatchOptions, Pattern};
use sweep_job::{Failure, FailureKind, Ignore, tasks::is_pattern};

pub(super) struct Folder {
    path: PathBuf,
    /// The path without links, to compare it with the targets of links.
    real: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), real: fs::canonicalize(path)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an input available.
    pub(super) fn link(&self, input: &Path, name: &str) -> io::Result<()> {
        fs::os::unix::fs::symlink(input, self.path.join(name))
    }

    /// Copies an input, without ignored files and without the results folder. Links are followed, as for digests.
    pub(super) fn copy(&self, input: &Path, name: &str, ignore: &Ignore, results: &Path) -> io::Result<()> {
        let mut copy = Copy { ignore, results: fs::canonicalize(results)?, around: Vec::new() };
        copy.all(input, &self.path.join(name), Path::new(""))
    }

    /// The paths of an entry of `outputs`: the entry itself, or the files that match a pattern, without `inputs`.
    ///
    /// # Errors
    /// No file matches, or too many do.
    pub(super) fn matching(&self, output: &str, inputs: &[&str]) -> Result<Vec<String>, Failure> {
        let Some(pattern) = Pattern::new(output).ok().filter(|_| is_pattern(output)) else {
            return Ok(vec![output.to_owned()]);
        };
        let mut paths = Vec::new();
        find(&self.path, "", inputs, &pattern, &mut paths)
            .map_err(|error| refuse(format!("the files for `{output}` cannot be found: {error}")))?;
        paths.sort();
        match paths.len() {
            0 => Err(refuse(format!("the program ended without writing a file for its output `{output}`"))),
            1..=MAX_MATCHES => Ok(paths),
            count => Err(refuse(format!(
                "{count} files match the output `{output}`, more than {MAX_MATCHES}: name the folder that contains them instead"
            ))),
        }
    }

    /// Checks that the program has written an output, and that nothing in it depends on files that are not kept.
    pub(super) fn check(&self, output: &str, outputs: &[&str]) -> Result<(), Failure> {
        let mut path = self.path.clone();
        let names: Vec<&str> = output.split('/').collect();
        for (index, name) in names.iter().enumerate() {
            path.push(name);
            let kind = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata.file_type(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(refuse(format!("the program ended without writing its output `{output}`")));
                }
                Err(error) => return Err(refuse(format!("the output `{output}` cannot be read: {error}"))),
            };
            if kind.is_symlink() && index + 1 < names.len() {
                let link = names[..=index].join("/");
                return Err(refuse(format!("the output `{output}` is behind the link `{link}`, which is not kept")));
            }
        }
        self.check_tree(&path, outputs).map_err(|error| match error {
            Unfit::Refused(failure) => failure,
            Unfit::Io(error) => refuse(format!("the output `{output}` cannot be read: {error}")),
        })
    }

    fn check_tree(&self, path: &Path, outputs: &[&str]) -> Result<(), Unfit> {
        let kind = fs::symlink_metadata(path)?.file_type();
        let relative_path = path.strip_prefix(&self.path).unwrap_or(path).display();
        if kind.is_dir() {
            for entry in fs::read_dir(path)? {
                self.check_tree(&entry?.path(), outputs)?;
            }
        } else if kind.is_symlink() {
            let target = fs::read_link(path)?;
            let real_path = fs::canonicalize(path).ok();
            let is_kept =
                |real_path: PathBuf| outputs.iter().any(|output| real_path.starts_with(self.real.join(output)));
            // The folder will be moved, so that only a relative link still leads to the same file.
            if target.is_absolute() || !real_path.is_some_and(is_kept) {
                let message =
                    format!("the output `{relative_path}` is a link to `{}`, which is not kept", target.display());
                return Err(Unfit::Refused(refuse(message)));
            }
        } else if !kind.is_file() {
            return Err(Unfit::Refused(refuse(format!("the output `{relative_path}` is neither a file nor a folder"))));
        }
        Ok(())
    }

    /// Removes everything but these.
    pub(super) fn keep(&self, outputs: &[&str]) -> io::Result<()> {
        let outputs: Vec<PathBuf> = outputs.iter().map(|output| self.path.join(output)).collect();
        tidy(&self.path, &outputs)
    }
}

/// A copy of an input.
struct Copy<'a> {
    ignore: &'a Ignore,
    results: PathBuf,
    /// Device and inode of the folders above the entry that is being copied.
    around: Vec<(u64, u64)>,
}

impl Copy<'_> {
    fn all(&mut self, source: &Path, target: &Path, inner: &Path) -> io::Result<()> {
        let metadata = fs::metadata(source)?;
        if metadata.is_file() {
            fs::copy(source, target)?;
            let mode = metadata.permissions().mode();
            // The program may write to its own copy.
            return if mode & OWN_FILE == 0 {
                fs::set_permissions(target, Permissions::from_mode(mode | OWN_FILE))
            } else {
                Ok(())
            };
        }
        let place = (metadata.dev(), metadata.ino());
        if self.around.contains(&place) {
            return Err(io::Error::other(format!("{} is a link to a folder that contains it", source.display())));
        }
        self.around.push(place);
        fs::create_dir(target)?;
        for entry in fs::read_dir(source)? {
            let name = entry?.file_name();
            let (source, inner) = (source.join(&name), inner.join(&name));
            let is_folder = source.is_dir();
            let is_results = is_folder && fs::canonicalize(&source)? == self.results;
            if !is_results && !self.ignore.is_ignored(&inner.to_string_lossy(), is_folder) {
                self.all(&source, &target.join(&name), &inner)?;
            }
        }
        self.around.pop();
        Ok(())
    }
}

/// Error of an output that cannot be kept.
enum Unfit {
    Refused(Failure),
    Io(io::Error),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn refuse(message: String) -> Failure {
    Failure { kind: FailureKind::Experiment, message }
}

/// Maximum number of files that match a pattern of `outputs`.
const MAX_MATCHES: usize = 10_000;

/// Finds the files below a folder whose paths match a pattern. Links are not followed: inputs are links.
fn find(folder: &Path, inner: &str, inputs: &[&str], pattern: &Pattern, paths: &mut Vec<String>) -> io::Result<()> {
    // A `*` is a part of one name.
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A name that is not UTF-8 matches no pattern.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if inner.is_empty() { name } else { format!("{inner}/{name}") };
        if inputs.contains(&path.as_str()) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find(&entry.path(), &path, inputs, pattern, paths)?;
        } else if kind.is_file() && pattern.matches_with(&path, options) {
            paths.push(path);
        }
    }
    Ok(())
}

/// Permissions of a folder that let its owner change it.
const OWN: u32 = 0o700;
/// Permission of a file that lets its owner change it.
const OWN_FILE: u32 = 0o200;

/// Removes the entries of a folder that are neither kept nor contain kept entries.
fn tidy(folder: &Path, kept_paths: &[PathBuf]) -> io::Result<()> {
    // The files of a read-only folder cannot be removed, and a program may have changed its permissions.
    let mode = fs::symlink_metadata(folder)?.permissions().mode();
    if mode & OWN != OWN {
        fs::set_permissions(folder, Permissions::from_mode(mode | OWN))?;
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if kept_paths.contains(&path) {
            continue;
        }
        let is_folder = entry.file_type()?.is_dir();
        if is_folder {
            tidy(&path, kept_paths)?;
        }
        match (is_folder, kept_paths.iter().any(|kept_path| kept_path.starts_with(&path))) {
            (_, true) => {}
            (true, false) => fs::remove_dir(&path)?,
            (false, false) => fs::remove_file(&path)?,
        }
    }
    Ok(())
}
