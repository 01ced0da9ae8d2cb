//! The files outside of a project that are data of its programs: not the system, installed software, settings, caches or temporary
//! files.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use super::seen::PASSED_OVER;

/// Folders with data below folders of the system: disks that a desktop mounts, and the inputs of `SageMaker`.
const OPEN: [&str; 2] = ["/run/media", "/opt/ml"];
/// Folders of the system and of installed software.
const SYSTEM: [&str; 22] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/gnu",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/spool",
];
/// Folders of temporary files, in addition to the values of `TMPDIR`, `SLURM_TMPDIR` and the like.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Folders with installed packages of Python, in a path.
pub(crate) const SITES: [&str; 2] = ["/site-packages/", "/dist-packages/"];
/// Names of folders with installed programs and libraries.
const INSTALLED: [&str; 5] = ["bin", "lib", "lib64", "libexec", "sbin"];
/// Ends of the names of variables that name folders of caches and of temporary files.
const FLEETING: [&str; 4] = ["CACHE", "CACHE_DIR", "CACHE_HOME", "TMPDIR"];
/// Other variables that name folders of downloads and settings.
const HOMES: [&str; 9] = [
    "CARGO_HOME",
    "HF_HOME",
    "KERAS_HOME",
    "MPLCONFIGDIR",
    "RUSTUP_HOME",
    "TORCH_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Distinguishes data outside of a project from other files there.
#[derive(Debug)]
pub(crate) struct Places {
    project: PathBuf,
    /// Folders without data, except for the folder directly in each that has the project.
    closed: Vec<PathBuf>,
    /// Folders without data, unless they have the project.
    scratch: Vec<PathBuf>,
    /// The ends of links in the project that lead out of it.
    linked: BTreeMap<PathBuf, PathBuf>,
}

impl Places {
    /// The places around a project, whose path has no links.
    pub(crate) fn around(project: &Path) -> Self {
        let is_fleeting = |name: &str| FLEETING.iter().any(|end| name.ends_with(end)) || HOMES.contains(&name);
        let named = env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_fleeting));
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let folders = named.map(|(_, value)| PathBuf::from(value));
        let folders = folders.filter(|path| path.is_absolute() && !home.starts_with(path));
        let scratch = folders.chain(TEMPORARY.map(PathBuf::from)).filter_map(|path| fs::canonicalize(path).ok());
        Self {
            project: project.to_owned(),
            closed: SYSTEM.map(PathBuf::from).into(),
            scratch: scratch.collect(),
            linked: BTreeMap::new(),
        }
    }

    /// True if a path without links, which is not in the project, leads to data.
    pub(crate) fn are_data(&self, path: &Path) -> bool {
        let are_linked = |end: &PathBuf| path.starts_with(end) && self.are_data_below(path, Some(end));
        self.are_data_below(path, None) || self.linked.values().any(are_linked)
    }

    /// Notes a link in the project: what it leads to is data even if that is hidden or temporary.
    pub(crate) fn link(&mut self, link: &Path) {
        if self.linked.contains_key(link) {
            return;
        }
        if let Some(end) = fs::canonicalize(link).ok().filter(|end| !end.starts_with(&self.project)) {
            self.linked.insert(link.to_owned(), end);
        }
    }

    fn are_data_below(&self, path: &Path, root: Option<&Path>) -> bool {
        let is_open = |folder: &PathBuf| {
            let Ok(inner) = path.strip_prefix(folder) else { return true };
            self.project.strip_prefix(folder).is_ok_and(|own| own.iter().next() == inner.iter().next())
        };
        let is_system = !self.closed.iter().all(is_open) && !OPEN.iter().any(|folder| path.starts_with(folder));
        if self.project.starts_with(path) || is_system && !self.shares_scratch(path) {
            return false;
        }
        let is_scratch = |folder: &PathBuf| path.starts_with(folder) && !self.project.starts_with(folder);
        if root.is_none() && self.scratch.iter().any(is_scratch) {
            return false;
        }
        let shared = path.iter().zip(self.project.iter()).take_while(|(name, own)| name == own).count();
        let shared = shared.max(root.map_or(0, |root| root.iter().count()));
        let names: Vec<&OsStr> = path.iter().skip(shared).collect();
        let is_hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
        let is_installed =
            |name: &OsStr| SITES.iter().chain(&PASSED_OVER).any(|folder| name == folder.trim_matches('/'));
        let is_library = |pair: &[&OsStr]| {
            let is_python = |name: &OsStr| {
                let minor = name.to_str().and_then(|name| name.strip_prefix("python3."));
                minor.is_some_and(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()))
            };
            pair[0].as_encoded_bytes().starts_with(b"lib") && is_python(pair[1])
        };
        // Counters of other Java processes, which come and go.
        let is_of_java = |name: &OsStr| name.as_encoded_bytes().starts_with(b"hsperfdata_");
        !names.iter().any(|name| is_hidden(name) || is_of_java(name) || is_installed(name))
            && !names.windows(2).any(is_library)
    }

    /// True if a path is in a folder of temporary files that has the project, too.
    fn shares_scratch(&self, path: &Path) -> bool {
        self.scratch.iter().any(|folder| path.starts_with(folder) && self.project.starts_with(folder))
    }

    /// True if a program or a library at this path is an installed one, so that it is a part of the environment.
    pub(crate) fn are_installed(&self, path: &Path) -> bool {
        let is_inner = |folder: &Path| !self.project.starts_with(folder);
        let mut folders = path.ancestors().skip(1).take_while(|folder| is_inner(folder));
        folders.any(|folder| folder.file_name().is_some_and(|name| INSTALLED.iter().any(|known| name == *known)))
    }
}

/// True if `path` leads to a temporary file that is not hidden.
pub(crate) fn is_temporary(path: &Path) -> bool {
    let inner = TEMPORARY.iter().find_map(|folder| path.strip_prefix(folder).ok());
    inner.is_some_and(|inner| !inner.iter().any(|name| name.as_encoded_bytes().starts_with(b".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_data(project: &str, path: &str) -> bool {
        let (project, closed) = (PathBuf::from(project), SYSTEM.map(PathBuf::from).into());
        let scratch = vec!["/tmp".into(), "/dev/shm".into(), "/scratch/hf".into()];
        Places { project, closed, scratch, linked: BTreeMap::new() }.are_data(Path::new(path))
    }

    #[test]
    fn links_of_the_project_lead_to_data() {
        let places = Places {
            project: "/home/ada/nets".into(),
            closed: SYSTEM.map(PathBuf::from).into(),
            scratch: vec!["/tmp".into()],
            linked: BTreeMap::new(),
        };
        for (path, root, expected) in [
            ("/home/ada/.data/y", "/home/ada/.data/y", true),
            ("/tmp/x/a.csv", "/tmp/x", true),
            ("/tmp/x/.git/HEAD", "/tmp/x", false),
            ("/usr/share/dict", "/usr/share", false),
            ("/home/ada/env/lib/python3.12/os.py", "/home/ada/env", false),
        ] {
            assert_eq!(places.are_data_below(Path::new(path), Some(Path::new(root))), expected, "{path}");
        }
    }

    #[test]
    fn data_are_apart_from_software_settings_and_caches() {
        let project = "/home/ada/nets";
        for data in ["/data/train.bin", "/home/ada/data/x.csv", "/mnt/d/a", "/home/ada/lib/mine.py", "/home/bob/x.npy"]
        {
            assert!(are_data(project, data), "{data}");
        }
        for other in [
            "/usr/lib/x",
            "/etc/passwd",
            "/opt/cuda/x.h",
            "/tmp/torchinductor_ada/x.py",
            "/dev/shm/x",
            "/home/ada/.cache/huggingface/model.bin",
            "/home/ada/conda/lib/python3.12/os.py",
            "/home/ada/venv/lib64/python3.12/site-packages/a.py",
            "/data/code/__pycache__/a.pyc",
            "/scratch/hf/hub/model.bin",
            "/home/ada",
            "/home",
            "/",
        ] {
            assert!(!are_data(project, other), "{other}");
        }
    }

    #[test]
    fn a_project_in_a_closed_folder_has_data_beside_it() {
        assert!(are_data("/var/lib/ci/job/nets", "/var/lib/ci/data.csv"));
        assert!(!are_data("/var/lib/ci/job/nets", "/var/cache/fonts"));
        assert!(are_data("/tmp/a/nets", "/tmp/a/data.csv"));
        assert!(are_data("/tmp/a/nets", "/tmp/b/data.csv"));
        assert!(are_data("/dev/shm/.x/nets", "/dev/shm/.x/data.csv"));
        assert!(!are_data("/dev/shm/.x/nets", "/dev/shm/.y/data.csv"), "hidden");
        assert!(!are_data("/dev/shm/x", "/dev/null"));
        assert!(!are_data("/tmp/a/nets", "/tmp/hsperfdata_ada/7"), "of another Java process");
        assert!(are_data("/home/ada/.work/nets", "/home/ada/.work/data.csv"));
    }
}
