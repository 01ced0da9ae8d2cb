//! The reports of the module `sitecustomize.py`, which Python imports at its start.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use fs_err as fs;
use sweep_job::{FileStamp, Package};

use super::{Noted, Read};
use crate::{
    host::packages::{installed, named, normalized},
    record::path_text,
    run::unescaped,
    store::{OBSERVER, READS, SHARED_FILES, TRACKING},
};

/// Source of the Python module `sitecustomize`.
const MODULE: &str = include_str!("sitecustomize.py");
/// Maximum length of a list of installed files that is searched for a module, in bytes.
const MAX_LIST_LENGTH: u64 = 16 << 20;
/// Maximum length of a report, in bytes; of a longer report, only the beginning is read.
const MAX_REPORT_LENGTH: usize = 256 << 20;

/// The folder with the module, and the file that it writes.
pub(in super::super) struct Audit {
    folder: PathBuf,
}

/// Reports of a program's processes.
#[derive(Default)]
pub(super) struct Seen {
    /// Processes that have reported.
    pub(super) begun: usize,
    /// Files that were read, by their absolute paths.
    pub(super) read: BTreeMap<PathBuf, Noted>,
    /// Files that were written.
    pub(super) written: BTreeSet<PathBuf>,
    /// Modules of installed packages, with the folders that they are installed in.
    pub(super) packages: BTreeSet<(PathBuf, String)>,
    /// The importing file of each imported file.
    pub(super) importers: BTreeMap<PathBuf, PathBuf>,
    /// Numbers of times that the import system listed folders.
    pub(super) listed: BTreeMap<PathBuf, usize>,
    /// Folders of Python's path.
    pub(super) on_path: BTreeSet<PathBuf>,
    /// Modules that were looked for on Python's path.
    pub(super) wanted: BTreeSet<String>,
    /// Modules that were looked for in folders of packages.
    pub(super) wanted_in: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl Seen {
    /// The modules that were looked for in a folder.
    pub(super) fn wanted_in(&self, folder: &Path) -> BTreeSet<&str> {
        let inner = self.wanted_in.get(folder);
        // A folder that is neither on the path nor in a package belongs to an unknown importer.
        let is_on_path = inner.is_none() || self.on_path.contains(folder);
        let outer = self.wanted.iter().filter(|_| is_on_path);
        outer.chain(inner.into_iter().flatten()).map(String::as_str).collect()
    }
}

impl Noted {
    /// Returns true if the file is unchanged since the program read it.
    pub(super) fn is_unchanged(&self, path: &Path) -> bool {
        !self.was_written_first && fs::metadata(path).is_ok_and(|metadata| FileStamp::of(&metadata) == self.read.stamp)
    }
}

impl Audit {
    /// Writes the module below a folder that is removed with the job. It may contain the same files of
    /// an earlier job.
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        let audit = Self { folder: folder.join(TRACKING) };
        fs::create_dir_all(&audit.folder)?;
        fs::write(audit.folder.join(OBSERVER), MODULE)?;
        fs::write(audit.reads(), "")?;
        fs::write(audit.shared(), "")?;
        Ok(audit)
    }

    /// The file that the module writes.
    pub(in super::super) fn reads(&self) -> PathBuf {
        self.folder.join(READS)
    }

    /// The path that the module opens once the interpreter has started.
    pub(in super::super) fn started(&self) -> PathBuf {
        self.folder.join(format!("{READS}.started"))
    }

    /// The file to which the kernel's observer reports files that other programs may change, too.
    pub(super) fn shared(&self) -> PathBuf {
        self.folder.join(SHARED_FILES)
    }

    /// Adds the variables that make Python import the module. `is_aid` is true if the kernel reports the files, and Python
    /// adds only the facts that the kernel does not know.
    pub(in super::super) fn prepare(
        &self,
        program: &mut Command,
        project: &Path,
        skipped: &[PathBuf],
        inputs: &[PathBuf],
        is_aid: bool,
    ) {
        let python_path =
            program.get_envs().find(|(name, _)| *name == "PYTHONPATH").map(|(_, value)| value.map(OsStr::to_owned));
        let earlier_path =
            python_path.unwrap_or_else(|| std::env::var_os("PYTHONPATH")).filter(|path| !path.is_empty());
        let mut path = self.folder.clone().into_os_string();
        // Python would take an empty part for its working folder.
        if let Some(earlier_path) = earlier_path {
            path.push(":");
            path.push(earlier_path);
        }
        let lines = |paths: &[PathBuf]| {
            paths.iter().map(PathBuf::as_path).map(Path::as_os_str).collect::<Vec<_>>().join(OsStr::new("\n"))
        };
        program.env("PYTHONPATH", path).env("SWEEP_READS", self.reads()).env("SWEEP_PROJECT", project);
        program.env("SWEEP_SKIPPED", lines(skipped)).env("SWEEP_INPUT_FOLDERS", lines(inputs));
        // Always set, because a job that runs `sweep` itself needs its own value.
        program.env("SWEEP_READS_AID", if is_aid { "1" } else { "" });
    }

    /// Files and packages that the module has reported, after an `earlier` report.
    pub(super) fn read(&self, earlier: &[u8]) -> io::Result<Seen> {
        let text = [earlier, &fs::read(self.reads())?].concat();
        Ok(parse(text.get(..MAX_REPORT_LENGTH).unwrap_or(&text)))
    }
}

/// Parses a report. Torn lines, and lines of other writers, are left out.
fn parse(text: &[u8]) -> Seen {
    let mut observation = Seen::default();
    for line in text.split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
        match fields.as_slice() {
            [b"begin", _] => observation.begun += 1,
            [b"read", size, mtime, inode, path, by] => {
                let stamp = || {
                    let text = |field: &[u8]| str::from_utf8(field).ok().map(str::to_owned);
                    let (size, inode) = (text(size)?.parse().ok()?, text(inode)?.parse().ok()?);
                    Some(FileStamp { size, mtime: text(mtime)?.parse().ok()?, inode })
                };
                let Some(stamp) = stamp() else { continue };
                let path = PathBuf::from(unescaped(path));
                if !path.is_absolute() {
                    continue;
                }
                let by = (!by.is_empty()).then(|| PathBuf::from(unescaped(by)));
                let was_written_first = observation.written.contains(&path);
                let new_entry = Noted { read: Read { stamp, by, digest: None }, was_written_first };
                let entry = observation.read.entry(path).or_insert(new_entry);
                // The file was read twice with different contents, so no digest is right.
                if entry.read.stamp != stamp {
                    entry.read.stamp = FileStamp { inode: 0, ..stamp };
                }
            }
            [b"write", path] => {
                observation.written.insert(PathBuf::from(unescaped(path)));
            }
            [b"by", path, by] if !by.is_empty() => {
                if let Ok(path) = fs::canonicalize(PathBuf::from(unescaped(path))) {
                    let by = PathBuf::from(unescaped(by));
                    observation.importers.entry(path).or_insert_with(|| fs::canonicalize(&by).unwrap_or(by));
                }
            }
            [b"lists", folder] => {
                if let Ok(folder) = fs::canonicalize(PathBuf::from(unescaped(folder))) {
                    *observation.listed.entry(folder).or_default() += 1;
                }
            }
            [b"path", folder] => {
                observation.on_path.extend(fs::canonicalize(PathBuf::from(unescaped(folder))));
            }
            [b"wants", module] => observation.wanted.extend(word(module)),
            [b"wants", module, folder] => {
                if let Ok(folder) = fs::canonicalize(PathBuf::from(unescaped(folder))) {
                    observation.wanted_in.entry(folder).or_default().extend(word(module));
                }
            }
            [b"package", folder, module] => {
                if let Ok(module) = str::from_utf8(module) {
                    observation.packages.insert((PathBuf::from(unescaped(folder)), module.to_owned()));
                }
            }
            _ => {}
        }
    }
    observation
}

/// The name of a module. A name that is not a word could not be separated from others in a list.
fn word(module: &[u8]) -> Option<String> {
    let is_word = !module.iter().any(|byte| byte.is_ascii_whitespace() || b"./".contains(byte));
    str::from_utf8(module).ok().filter(|_| is_word).map(str::to_owned)
}

/// The packages of modules, with their versions. Modules without a package are left out.
pub(super) fn packages(modules: &BTreeSet<(PathBuf, String)>) -> BTreeMap<String, Package> {
    let mut modules_by_folder: BTreeMap<&Path, BTreeSet<&str>> = BTreeMap::new();
    for (folder, module) in modules {
        modules_by_folder.entry(folder).or_default().insert(module);
    }
    let mut packages = BTreeMap::new();
    for (folder, mut modules) in modules_by_folder {
        let versions = installed(folder);
        let mut add = |name: String| {
            if let Some(version) = versions.get(&name) {
                packages.insert(name, Package { version: version.clone(), folder: path_text(folder) });
            }
        };
        modules.retain(|module| {
            let name = normalized(module);
            let is_named = versions.contains_key(&name);
            if is_named {
                add(name);
            }
            !is_named
        });
        for name in owners(folder, &modules) {
            add(name);
        }
    }
    packages
}

/// The packages in a folder that have installed one of these modules, by their lists of files.
fn owners(folder: &Path, modules: &BTreeSet<&str>) -> BTreeSet<String> {
    let mut package_names = BTreeSet::new();
    let mut open_modules = modules.clone();
    let Ok(entries) = fs::read_dir(folder) else { return package_names };
    for entry in entries.filter_map(Result::ok) {
        if open_modules.is_empty() {
            break;
        }
        let Some((name, _)) = entry.file_name().to_str().and_then(named) else { continue };
        let text = |file: &str| {
            let path = entry.path().join(file);
            let is_short = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_LIST_LENGTH);
            if is_short { fs::read_to_string(&path).unwrap_or_default() } else { String::new() }
        };
        let (top_names, files) = (text("top_level.txt"), text("RECORD"));
        let of_file = |line: &str| {
            let path = line.split(',').next().unwrap_or_default().to_owned();
            let first_part = path.split('/').next().unwrap_or_default().to_owned();
            if path.contains('/') { first_part } else { first_part.split('.').next().unwrap_or_default().to_owned() }
        };
        let own_modules: BTreeSet<String> =
            top_names.lines().map(|line| line.trim().to_owned()).chain(files.lines().map(of_file)).collect();
        let count_before = open_modules.len();
        open_modules.retain(|module| !own_modules.contains(*module));
        if open_modules.len() < count_before {
            package_names.insert(name);
        }
    }
    package_names
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn reports_are_read_whatever_is_between_them() {
        let text = b"begin\t7\nread\t3\t5\t9\t/p/a\\nb\\\\.py\t/p/train.py\ngarbage\nread\tx\t5\t9\t/p/c\t\n\
            write\t/p/out\nread\t1\t1\t1\t/p/out\t\npackage\t/v/site-packages\tyaml\nread\t3\t5\t9\trelative\t\n\
            read\t1\t2\t3\t/p/\xff.py\t\nread\t3\t5";
        let observation = parse(text);
        assert_eq!(observation.begun, 1);
        let paths: Vec<&[u8]> = observation.read.keys().map(|path| path.as_os_str().as_bytes()).collect();
        assert_eq!(paths, [b"/p/a\nb\\.py".as_slice(), b"/p/out", b"/p/\xff.py"]);
        assert!(observation.read[Path::new("/p/out")].was_written_first);
        assert_eq!(observation.packages.len(), 1);
        assert_eq!(parse(b"").begun, 0);
    }

    #[test]
    fn modules_have_packages() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path();
        for (name, file, text) in [
            ("numpy-2.1.0.dist-info", "RECORD", "numpy/__init__.py,,\n"),
            ("PyYAML-6.0.dist-info", "RECORD", "_yaml/x.py,,\nyaml/__init__.py,sha256=1,2\n"),
            ("python_dateutil-2.9.egg-info", "top_level.txt", "dateutil\n"),
            ("unused-1.dist-info", "RECORD", "unused.py,,\n"),
        ] {
            fs::create_dir_all(site.join(name)).unwrap();
            fs::write(site.join(name).join(file), text).unwrap();
        }
        let modules = ["numpy", "yaml", "dateutil", "nobodys"].map(|name| (site.to_owned(), name.to_owned()));
        let packages_of_modules = packages(&modules.into());
        let packages_of_modules: Vec<(&str, &str)> =
            packages_of_modules.iter().map(|(name, package)| (name.as_str(), package.version.as_str())).collect();
        assert_eq!(packages_of_modules, [("numpy", "2.1.0"), ("python-dateutil", "2.9"), ("pyyaml", "6.0")]);
    }
}
