//! State of a Git repository, from the program `git`. A machine without it, a folder without a repository, and a repository that
//! takes too long give no state, or a part of it.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    host::{Answer, ask, git},
    record::GitState,
};

/// State of the repository that contains the first of these files, and the beginning of its differences from the commit, of
/// at most `most` bytes. `None` if there is no repository or no commit.
pub(super) fn state(files: &[PathBuf], most: usize, until: Instant) -> Option<(GitState, Vec<u8>)> {
    let first = std::path::absolute(files.first()?).ok()?;
    let folder = first.parent()?;
    let answer = ask(git(folder).args(["rev-parse", "--verify", "--end-of-options", "HEAD^{commit}"]), 200, until)?;
    let commit = String::from_utf8(answer.text).ok()?.trim().to_owned();
    if commit.is_empty() || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let diff = ask(git(folder).args(DIFF), most, until);
    let untracked = untracked(folder, files, until);
    let differs = diff.as_ref().map(|diff| diff.bytes > 0);
    let dirty = match (differs, untracked) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    };
    let (digest, text) = match diff.filter(|diff| diff.bytes > 0) {
        Some(Answer { text, digest, .. }) => (Some(digest.to_hex().to_string()), text),
        None => (None, Vec::new()),
    };
    Some((GitState { commit, diff: digest, dirty }, text))
}

/// The differences of all tracked files from the commit, in a form that does not depend on the user's settings.
const DIFF: [&str; 9] = [
    "diff",
    "HEAD",
    "--binary",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// True if one of the files in the folder's repository is not tracked. `None` if Git fails or times out.
fn untracked(folder: &Path, files: &[PathBuf], until: Instant) -> Option<bool> {
    let files = files.iter().filter_map(|file| std::path::absolute(file).ok());
    // Files outside of the folder belong to another repository, or to none.
    let paths: Vec<PathBuf> = files.filter(|file| file.starts_with(folder)).collect();
    let answer = ask(git(folder).args(["--literal-pathspecs", "ls-files", "-z", "--"]).args(&paths), 1 << 20, until)?;
    let tracked = answer.text.split(|byte| *byte == 0).filter(|name| !name.is_empty()).count();
    Some(tracked < paths.len())
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    fn do_git(folder: &Path, args: &[&str]) {
        let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        assert!(ask(git(folder).args(author).args(args), 1000, soon()).is_some(), "{args:?}");
    }

    /// The tests need Git on the machine.
    fn has_git() -> bool {
        ask(Command::new("git").arg("--version"), 100, soon()).is_some()
    }

    #[test]
    fn a_repository_is_clean_or_differs_or_has_files_that_are_not_tracked() {
        if !has_git() {
            eprintln!("skipped: there is no `git` here");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let recipe = folder.path().join("recipe.yaml");
        fs_err::write(&recipe, "one\n").unwrap();
        let find = || state(std::slice::from_ref(&recipe), 50, soon());
        assert_eq!(find(), None, "no repository");
        do_git(folder.path(), &["init", "-q"]);
        assert_eq!(find(), None, "no commit");
        fs_err::write(folder.path().join("other"), "x").unwrap();
        do_git(folder.path(), &["add", "other"]);
        do_git(folder.path(), &["commit", "-qm", "first"]);
        let (git, diff) = find().unwrap();
        assert_eq!((git.commit.len(), git.diff, git.dirty), (40, None, Some(true)), "the recipe is not tracked");
        assert!(diff.is_empty());
        do_git(folder.path(), &["add", "recipe.yaml"]);
        do_git(folder.path(), &["commit", "-qm", "second"]);
        let (git, _) = find().unwrap();
        assert_eq!((git.diff, git.dirty), (None, Some(false)));
        fs_err::write(&recipe, "two\n".repeat(100)).unwrap();
        let (git, diff) = find().unwrap();
        assert_eq!((git.dirty, diff.len()), (Some(true), 50), "only the beginning of the differences is kept");
        let (_, whole_diff) = state(std::slice::from_ref(&recipe), 1 << 20, soon()).unwrap();
        assert_eq!(
            git.diff.unwrap(),
            blake3::hash(&whole_diff).to_hex().to_string(),
            "the digest is that of all of it"
        );
    }

    #[test]
    fn a_repository_without_time_to_answer_has_no_state() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(state(&[folder.path().join("recipe.yaml")], 50, Instant::now()), None);
        assert_eq!(state(&[], 50, soon()), None);
    }
}
