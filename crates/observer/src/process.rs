//! Facts about a process whose call is reported: the paths that the call names, and the files that the process finds at
//! them.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Read as _,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use libc::seccomp_notif;

use super::{
    Layer, kernel,
    walk::{self, State},
};

/// Commands of Git that report the state of the project, which a program logs and does not use in computations.
const TELLING: [&str; 16] = [
    "branch",
    "cat-file",
    "config",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "log",
    "ls-files",
    "remote",
    "rev-list",
    "rev-parse",
    "show",
    "status",
    "symbolic-ref",
    "update-index",
];
/// Maximum number of words of a command that are examined.
const MAX_WORDS: usize = 16;
/// Number of bytes of a script's first line in which the kernel searches for the interpreter.
const FIRST_LINE: u64 = 256;

/// Returns true if a Git command with these words only reports the state of the project.
pub(crate) fn tells(process: u32, words: u64) -> bool {
    let mut is_value = false;
    for index in 1..MAX_WORDS {
        let mut address = [0; 8];
        let pointer = words.saturating_add(8 * index as u64);
        if kernel::memory(process, pointer, &mut address).ok() != Some(address.len()) {
            return false;
        }
        let Ok(Some(word)) = kernel::path(process, u64::from_le_bytes(address)) else { return false };
        match word.as_slice() {
            _ if is_value => is_value = false,
            b"-C" | b"-c" | b"--git-dir" | b"--work-tree" => is_value = true,
            b"--version" => return true,
            [b'-', ..] => {}
            command => return TELLING.iter().any(|name| name.as_bytes() == command),
        }
    }
    false
}

/// The absolute path that a call means; the inner `None` for none, the outer if the memory cannot be read.
#[expect(clippy::option_option, reason = "one is the caller's path, the other that it cannot be known")]
pub(crate) fn path(report: &seccomp_notif, folder: Option<u64>, address: u64) -> Option<Option<PathBuf>> {
    let process = report.pid;
    let Some(text) = kernel::path(process, address).ok()?.filter(|text| !text.is_empty()) else { return Some(None) };
    let path = PathBuf::from(OsString::from_vec(text));
    if path.is_absolute() {
        return Some(Some(of_process(process, path)));
    }
    // Only the lower half is the number.
    #[expect(clippy::cast_possible_truncation, reason = "a descriptor has 32 bits")]
    let number = folder.map_or(libc::AT_FDCWD, |folder| (folder as u32).cast_signed());
    let folder = if number == libc::AT_FDCWD {
        fs::read_link(format!("/proc/{process}/cwd")).ok()
    } else {
        fs::read_link(format!("/proc/{process}/fd/{number}")).ok()
    };
    Some(folder.filter(|folder| folder.is_absolute()).map(|folder| folder.join(path)))
}

/// Paths that mean another file in each process, as they are for this process.
fn of_process(process: u32, path: PathBuf) -> PathBuf {
    for (prefix, entry) in [
        ("/proc/self", ""),
        ("/proc/thread-self", ""),
        ("/dev/fd", "fd"),
        ("/dev/stdin", "fd/0"),
        ("/dev/stdout", "fd/1"),
    ] {
        if let Ok(inner) = path.strip_prefix(prefix) {
            let mut real_path = PathBuf::from(format!("/proc/{process}"));
            for part in [Path::new(entry), inner] {
                if !part.as_os_str().is_empty() {
                    real_path.push(part);
                }
            }
            return real_path;
        }
    }
    path
}

/// The folder that a descriptor is open for.
pub(crate) fn descriptor(process: u32, number: u64) -> Option<PathBuf> {
    #[expect(clippy::cast_possible_truncation, reason = "a descriptor has 32 bits")]
    let number = number as u32;
    let folder = fs::read_link(OsStr::new(&format!("/proc/{process}/fd/{number}"))).ok()?;
    folder.is_absolute().then_some(folder)
}

/// Returns the state of `path`. Paths that the program has changed are examined as its process sees them: in its own view,
/// it may have created folders and links that exist nowhere else.
pub(crate) fn look(process: u32, path: &Path, layer: &Layer, is_own: bool) -> State {
    let worker_state = walk::look(&layer.at(path));
    if !is_own {
        return worker_state;
    }
    match (walk::look(&inside(process, path)), worker_state) {
        // The content before the program changed it counts.
        (State::File(_), State::File(metadata)) => State::File(metadata),
        (State::Other, worker_state) => worker_state,
        (process_state, _) => process_state,
    }
}

/// The interpreter that the first line of a script names.
pub(crate) fn interpreter(process: u32, script: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(inside(process, script)).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| matches!(byte, b'\n' | 0)).next()?.trim_ascii_start();
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).next().filter(|name| !name.is_empty())?;
    let path = PathBuf::from(OsString::from_vec(name.to_vec()));
    // A relative path starts from the folder of the process.
    if path.is_absolute() { Some(path) } else { Some(fs::read_link(format!("/proc/{process}/cwd")).ok()?.join(path)) }
}

/// The path by which this process finds the file that another process has at `path`.
fn inside(process: u32, path: &Path) -> PathBuf {
    Path::new(&format!("/proc/{process}/root")).join(path.strip_prefix("/").unwrap_or(path))
}
