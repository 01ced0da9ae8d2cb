//! Revisions of a project's repository, read by the program `git`, which changes nothing there.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use fs_err as fs;

use super::{
    VariantError,
    draft::{Content, Draft},
};
use crate::host::{Children, Limits, converse, git};

/// Time for each question to Git.
const GIT_TIMEOUT: Duration = Duration::from_mins(5);
/// Maximum size of Git's output in bytes.
const MAX_ANSWER: usize = 256 << 20;
/// Git's modes of a submodule and of a missing file.
const SUBMODULE: &str = "160000";
const NOTHING: &str = "000000";

/// A revision that is being added.
struct Revision<'a> {
    draft: &'a mut Draft,
    name: &'a str,
}

/// A path whose content in the working tree is another than in a commit.
struct Difference {
    /// The mode in the commit.
    mode: String,
    /// The object in the commit.
    object: String,
    /// From the repository's folder.
    path: PathBuf,
}

/// Gives a project the tracked files of a revision; untracked files stay.
pub(super) fn add(draft: &mut Draft, name: &str) -> Result<(), VariantError> {
    let project = draft.project().to_owned();
    let revision = Revision { draft, name };
    let folder = revision.repository(&project)?;
    let object = format!("{name}^{{commit}}");
    let mut command = git(&project);
    command.args(["rev-parse", "--verify", "--end-of-options", &object]);
    let commit = revision.ask(&mut command, None).map_err(|error| match error {
        VariantError::Git { revision, reason } => {
            let reason = reason.strip_prefix("fatal: ").unwrap_or(&reason).to_owned();
            VariantError::NoRevision { revision, reason }
        }
        other => other,
    })?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    let inner_path = project.strip_prefix(&folder).unwrap_or(Path::new("")).to_owned();
    Revision { ..revision }.compare(&folder, &inner_path, Path::new(""), &commit)
}

impl Revision<'_> {
    /// The folder of the repository that has the project.
    fn repository(&self, project: &Path) -> Result<PathBuf, VariantError> {
        let no_repository = |reason: String| VariantError::NoRepository { revision: self.name.to_owned(), reason };
        match self.ask(git(project).args(["rev-parse", "--show-toplevel"]), None) {
            Ok(folder) => {
                let folder = PathBuf::from(OsStr::from_bytes(folder.trim_ascii_end()));
                fs::canonicalize(&folder).map_err(VariantError::file(&folder))
            }
            Err(VariantError::Git { .. }) => Err(no_repository(format!(
                "`{}` is not in a Git repository, and has no patch with this name",
                project.display()
            ))),
            Err(other) => Err(other),
        }
    }

    /// Runs a Git command with `input` on stdin, and returns its stdout.
    fn ask(&self, command: &mut Command, input: Option<Vec<u8>>) -> Result<Vec<u8>, VariantError> {
        let limits = Limits { most: MAX_ANSWER, until: Instant::now() + GIT_TIMEOUT, children: Children::Awaited };
        let failure = |reason: &str| VariantError::Git { revision: self.name.to_owned(), reason: reason.to_owned() };
        let answer = converse(command, input, limits).map_err(|error| VariantError::NoRepository {
            revision: self.name.to_owned(),
            reason: format!("`git` cannot be started: {error}"),
        })?;
        if !answer.succeeded() {
            return Err(failure(answer.last_words().unwrap_or("`git` failed without a message")));
        }
        if answer.is_whole() { Ok(answer.text) } else { Err(failure("its list of files is too long")) }
    }

    /// Adds the differences of a commit of the repository in `folder`. The part `inner_path` of the repository is at `place`
    /// in the project.
    fn compare(&mut self, folder: &Path, inner_path: &Path, place: &Path, commit: &str) -> Result<(), VariantError> {
        let mut command = git(&folder.join(inner_path));
        command.args([
            "diff",
            "--raw",
            "-z",
            "--no-renames",
            "--no-abbrev",
            "--no-ext-diff",
            "--ignore-submodules=none",
        ]);
        let text = self.ask(command.args([commit, "--", "."]), None)?;
        let mut changes = Vec::new();
        for Difference { mode, object, path } in differences(&text) {
            let Ok(relative) = path.strip_prefix(inner_path) else { continue };
            let at = place.join(relative);
            match mode.as_str() {
                NOTHING => self.draft.remove(&at),
                SUBMODULE => {
                    let submodule = folder.join(&path);
                    let mut command = git(&submodule);
                    command.args([
                        "rev-parse",
                        "--verify",
                        "--quiet",
                        "--end-of-options",
                        &format!("{object}^{{commit}}"),
                    ]);
                    if !submodule.join(".git").exists() || self.ask(&mut command, None).is_err() {
                        return Err(VariantError::Submodule {
                            revision: self.name.to_owned(),
                            path: path.display().to_string(),
                            commit: object,
                        });
                    }
                    self.compare(&submodule, Path::new(""), &at, &object)?;
                }
                _ => changes.push((path, at)),
            }
        }
        self.check_out(folder, commit, changes)
    }

    /// Adds files of a commit, as Git would check them out: with the ends of lines and the filters that the repository has.
    fn check_out(&mut self, folder: &Path, commit: &str, changes: Vec<(PathBuf, PathBuf)>) -> Result<(), VariantError> {
        if changes.is_empty() {
            return Ok(());
        }
        let temporary = tempfile::tempdir().map_err(VariantError::file(&std::env::temp_dir()))?;
        let index = temporary.path().join("index");
        self.ask(git(folder).env("GIT_INDEX_FILE", &index).args(["read-tree", commit]), None)?;
        let list: Vec<u8> =
            changes.iter().flat_map(|(path, _)| path.as_os_str().as_bytes().iter().copied().chain([0])).collect();
        let files = temporary.path().join("files");
        let mut prefix = std::ffi::OsString::from("--prefix=");
        prefix.push(&files);
        prefix.push("/");
        let mut command = git(folder);
        command.env("GIT_INDEX_FILE", &index).args(["checkout-index", "-z", "--stdin"]).arg(prefix);
        self.ask(&mut command, Some(list))?;
        for (path, place) in changes {
            let file = files.join(&path);
            let content = Content::read(&file).map_err(VariantError::file(&file))?;
            self.draft.set(place, content);
        }
        Ok(())
    }
}

/// The entries of `git diff --raw -z`.
fn differences(text: &[u8]) -> Vec<Difference> {
    let mut parts = text.split(|byte| *byte == 0);
    let mut differences = Vec::new();
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        let head = String::from_utf8_lossy(head);
        let mut words = head.trim_start_matches(':').split(' ');
        let (Some(mode), Some(_), Some(object)) = (words.next(), words.next(), words.next()) else { continue };
        // A path with a conflict has another entry with its content.
        if words.nth(1) != Some("U") {
            let path = PathBuf::from(OsStr::from_bytes(path));
            differences.push(Difference { mode: mode.to_owned(), object: object.to_owned(), path });
        }
    }
    differences
}

/// True if a folder is another worktree of the repository that has a project.
pub(super) fn is_worktree(folder: &Path, project: &Path) -> bool {
    let is_top = folder.join(".git").exists();
    let common = |folder: &Path| -> Option<PathBuf> {
        let mut command = git(folder);
        let text = known(command.args(["rev-parse", "--path-format=absolute", "--git-common-dir"]))?;
        fs::canonicalize(Path::new(OsStr::from_bytes(text.trim_ascii_end()))).ok()
    };
    is_top && common(folder).is_some_and(|directory| common(project) == Some(directory))
}

/// Gives a project the files of another worktree: its tracked files, and its untracked files that are not ignored.
pub(super) fn add_worktree(draft: &mut Draft, worktree: &Path) -> Result<(), VariantError> {
    let project = draft.project().to_owned();
    let name = worktree.display().to_string();
    let revision = Revision { draft: &mut *draft, name: &name };
    let folder = revision.repository(&project)?;
    let inner_path = project.strip_prefix(&folder).unwrap_or(Path::new(""));
    let list = |folder: &Path, arguments: &[&str]| -> Result<HashSet<PathBuf>, VariantError> {
        let mut command = git(&folder.join(inner_path));
        let text = revision.ask(command.args(["ls-files", "-z", "--cached"]).args(arguments), None)?;
        Ok(text
            .split(|byte| *byte == 0)
            .filter(|path| !path.is_empty())
            .map(|path| OsStr::from_bytes(path).into())
            .collect())
    };
    let worktree_files = list(worktree, &["--others", "--exclude-standard"])?;
    let project_files = list(&folder, &[])?;
    for place in &worktree_files {
        let file = worktree.join(inner_path).join(place);
        // A submodule, or a file that was removed there.
        match Content::read(&file) {
            Ok(content) => draft.set(place.clone(), content),
            Err(_) if file.is_dir() => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => draft.remove(place),
            Err(error) => return Err(VariantError::file(&file)(error)),
        }
    }
    for place in project_files.difference(&worktree_files) {
        draft.remove(place);
    }
    Ok(())
}

fn known(command: &mut Command) -> Option<Vec<u8>> {
    crate::host::ask(command, MAX_ANSWER, Instant::now() + GIT_TIMEOUT).map(|answer| answer.text)
}
