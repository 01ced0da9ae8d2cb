//! The program `git`, queried about a folder.

use std::{path::Path, process::Command};

/// Variables that make Git use another repository than its folder's, or change the meaning of its arguments. A process that a repository's
/// hook has started has some of them. The list is `git rev-parse --local-env-vars` without the variables for settings.
const TIED: [&str; 22] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIFF_OPTS",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Returns the command `git` for the repository of `folder`, independent of the environment of this process. The command
/// changes nothing, never prompts, and starts no program that a repository configures.
pub fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["--no-pager", "-c", "core.fsmonitor=false"]);
    for name in TIED {
        git.env_remove(name);
    }
    git.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    git
}

/// True if a folder or one above it is a repository, with Git's own files in it or in the place that it names.
pub fn is_in_repository(folder: &Path) -> bool {
    folder.ancestors().any(|folder| folder.join(".git").symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::host::ask;

    /// A hook of another repository, or a shell with a variable of it, has started this process.
    #[test]
    fn git_answers_about_the_repository_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (own_folder, other_folder) = (folder.path().join("own"), folder.path().join("other"));
        let run = |mut git: Command, args: &[&str]| ask(git.args(args), 1000, Instant::now() + Duration::from_mins(1));
        for folder in [&own_folder, &other_folder] {
            fs_err::create_dir_all(folder).unwrap();
            if run(git(folder), &["init", "-q"]).is_none() {
                eprintln!("skipped: there is no `git` here");
                return;
            }
        }
        fs_err::write(own_folder.join("own.py"), "").unwrap();
        fs_err::write(other_folder.join("secret"), "").unwrap();
        let list_files = |keeps_variables: bool| {
            let mut command = Command::new("sh");
            command
                .env("GIT_DIR", other_folder.join(".git"))
                .env("GIT_WORK_TREE", &other_folder)
                .env("GIT_INDEX_FILE", other_folder.join("index"));
            command.env("GIT_CONFIG_PARAMETERS", format!("'core.worktree={}'", other_folder.display()));
            let git = git(&own_folder);
            // Sets the variables that the command would set, as if this process had them.
            for (name, value) in git.get_envs().filter(|_| !keeps_variables) {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command.arg("-c").arg("exec git \"$@\"").arg("sh").args(git.get_args());
            let answer = run(command, &["ls-files", "--others"]);
            answer.map(|answer| answer.out().into_owned()).unwrap_or_default()
        };
        assert_ne!(list_files(true), "own.py\n", "the variables have an effect");
        assert_eq!(list_files(false), "own.py\n");
        assert!(is_in_repository(&own_folder.join("inner")));
    }
}
