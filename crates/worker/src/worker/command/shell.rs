//! The shell of a script.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{self, Stdio},
};

use sweep_job::{
    Failure, FailureKind, Variable,
    tasks::{Command, Shell},
};

/// The program and its arguments for a script.
pub(super) fn words(command: &Command, script: &str, folder: &Path) -> Result<Vec<String>, Failure> {
    let path = match command.env.get("PATH") {
        Some(Variable::Text(path)) => Some(path.into()),
        Some(Variable::From(variable)) => std::env::var_os(variable),
        None => std::env::var_os("PATH"),
    };
    let path = path.unwrap_or_default();
    let command_line = |name: &str, arguments: &[&str]| {
        std::iter::once(&name).chain(arguments).map(|word| (*word).to_owned()).collect()
    };
    let mut words: Vec<String> = match command.shell() {
        Some(Shell::Given(words)) => words,
        Some(Shell::Pipefail) if is_there("bash", &path, folder) => command_line("bash", &Shell::PIPEFAIL),
        Some(Shell::Pipefail) if knows_pipefail(&path, folder) => command_line("sh", &Shell::PIPEFAIL),
        Some(Shell::Pipefail) => {
            let message = "`run` has a pipe, and there is no `bash` on the PATH and no `sh` that supports `pipefail`: \
                the failure of its first part would be missed; install bash, name another shell with `shell`, or \
                accept that with `shell: sh`";
            return Err(Failure { kind: FailureKind::Input, message: message.into() });
        }
        Some(Shell::Plain) | None => command_line("sh", &Shell::PLAIN),
    };
    words.extend([script.to_owned(), "run".to_owned()]);
    Ok(words)
}

/// True if a program is in one of these folders.
fn is_there(name: &str, path: &OsStr, folder: &Path) -> bool {
    let is_program =
        |file: &Path| file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path).any(|place| is_program(&folder.join(place).join(name)))
}

/// True if `sh` can report the failure of any part of a pipeline; POSIX has required it since 2024.
fn knows_pipefail(path: &OsStr, folder: &Path) -> bool {
    let mut sh = process::Command::new("sh");
    sh.args(["-c", "set -o pipefail"]).env("PATH", path).current_dir(folder);
    sh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sh.status().is_ok_and(|status| status.success())
}
