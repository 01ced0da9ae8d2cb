//! The program that a `command` job starts, and for Python its version and its installed packages.
//!
//! No package is imported: the installed packages are read from the names in the environment's folders. Python is
//! started once per path to print its version and its folders, unless `pyvenv.cfg` has them.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use fs_err as fs;
use sweep_job::Values;

use crate::{
    host::{
        ask,
        replaced::{Outlives, Readers, replace},
        started,
    },
    record::Interpreter,
};

/// Timeout for Python to print its version.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of packages in a list.
const MAX_PACKAGES: usize = 100_000;

/// Script that prints the version of Python, its real path, which a wrapper hides, and the prefixes of the environment
/// and of the installation. Before Python 3.14, both prefixes are the installation's, because `-S` leaves out the
/// module that finds the environment.
const QUESTION: &str =
    "import sys\nprint(sys.version.split()[0], sys.executable, sys.prefix, sys.base_prefix, sep='\\n')";

/// The programs that were examined, by their paths.
#[derive(Debug, Default)]
pub(super) struct Interpreters(Mutex<HashMap<PathBuf, Interpreter>>);

impl Interpreters {
    /// The program of a job with the parameters `values`, which runs in `dir`. A new list of packages is written to
    /// `folder`. `None` if the task has no program, or if the program is not found.
    pub(super) fn of(&self, values: &Values, dir: &Path, folder: &Path) -> Option<Interpreter> {
        let path = started::program(values, dir)?;
        // The lock is held during the examination, so that each interpreter is examined once.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(known.entry(path).or_insert_with_key(|path| look(path, dir, folder)).clone())
    }
}

fn look(path: &Path, dir: &Path, folder: &Path) -> Interpreter {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let shown_path = real.display().to_string();
    if !started::is_python(path) && !started::is_python(&real) {
        return Interpreter { path: shown_path, ..Interpreter::default() };
    }
    let environment = Environment::declared(path).or_else(|| Environment::asked(path, dir));
    let Some(environment) = environment else { return Interpreter { path: shown_path, ..Interpreter::default() } };
    let shown_path = environment.executable.as_ref().map_or(shown_path, |real| real.display().to_string());
    let packages = environment.packages();
    let packages = (!packages.is_empty()).then(|| {
        let mut list = packages.into_iter().collect::<Vec<_>>().join("\n");
        list.push('\n');
        let digest = blake3::hash(list.as_bytes()).to_hex().to_string();
        let file = folder.join(format!("packages-{}.txt", &digest[..12]));
        // A write error is ignored: without the list, its digest still distinguishes environments.
        if folder.is_dir() && !file.exists() {
            let _ = replace(&file, list.as_bytes(), Readers::All, Outlives::Process);
        }
        digest
    });
    Interpreter { path: shown_path, python: Some(environment.version), packages }
}

/// An environment of Python.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Environment {
    /// Version of Python.
    version: String,
    /// Real path of the interpreter, if it was started to print it.
    executable: Option<PathBuf>,
    /// Prefixes: the folders below which packages are installed.
    prefixes: Vec<PathBuf>,
}

impl Environment {
    /// The virtual environment of the interpreter at `path`, from its `pyvenv.cfg`. `None` without such a file, and if
    /// the environment also uses the packages of the installation, whose prefix is not in `pyvenv.cfg`.
    fn declared(path: &Path) -> Option<Self> {
        let prefix = path.parent()?.parent()?;
        let text = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
        };
        let shared = value("include-system-site-packages").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        // `version` of `venv`, `version_info` of `uv` and `virtualenv`: `3.12.3`, or `3.12.3.final.0`.
        let version = value("version_info").or_else(|| value("version"))?;
        let version = version.splitn(4, '.').take(3).collect::<Vec<_>>().join(".");
        (!shared).then(|| Self { version, executable: None, prefixes: vec![prefix.to_owned()] })
    }

    /// Starts the interpreter at `path` without packages, and returns the environment that it prints. `None` if it
    /// fails or exceeds [`TIMEOUT`].
    fn asked(path: &Path, dir: &Path) -> Option<Self> {
        let mut python = Command::new(path);
        python.args(["-I", "-S", "-c", QUESTION]);
        if dir.is_dir() {
            python.current_dir(dir);
        }
        let answer = ask(&mut python, 10_000, Instant::now() + TIMEOUT)?;
        let text = String::from_utf8(answer.text).ok()?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let version = lines.next()?.to_owned();
        let executable = lines.next().and_then(|path| fs::canonicalize(path).ok());
        let mut prefixes: Vec<PathBuf> = lines.take(2).map(PathBuf::from).collect();
        // Before Python 3.14, `-S` prints the prefix of the installation in a virtual environment.
        let own = path.parent().and_then(Path::parent).filter(|prefix| prefix.join("pyvenv.cfg").is_file());
        prefixes.extend(own.map(Path::to_owned));
        prefixes.sort();
        prefixes.dedup();
        Some(Self { version, executable, prefixes })
    }

    /// Names and versions of the installed packages, from the names of their metadata folders: `numpy-2.1.0`.
    fn packages(&self) -> BTreeSet<String> {
        let mut packages_found = BTreeSet::new();
        let minor = self.version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        for prefix in &self.prefixes {
            let mut roots = vec![prefix.clone()];
            // On Debian, the Python in `/usr` also uses packages in `/usr/local`.
            if prefix == Path::new("/usr") {
                roots.push(PathBuf::from("/usr/local"));
            }
            for (root, lib) in roots.iter().flat_map(|root| [(root, "lib"), (root, "lib64")]) {
                for name in [format!("python{minor}"), "python3".to_owned()] {
                    for packages in ["site-packages", "dist-packages"] {
                        names(
                            &root.join(lib).join(&name).join(packages),
                            &[".dist-info", ".egg-info"],
                            &mut packages_found,
                        );
                    }
                }
            }
            names(&prefix.join("conda-meta"), &[".json"], &mut packages_found);
        }
        packages_found
    }
}

/// Adds the names in `folder` that end with one of `ends`, without this ending.
fn names(folder: &Path, ends: &[&str], packages: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok).take(MAX_PACKAGES.saturating_sub(packages.len())) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        packages.extend(ends.iter().find_map(|end| name.strip_suffix(end)).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use sweep_job::Value;

    use super::*;

    fn values(pairs: &[(&str, Value)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// Writes a replacement of Python that prints `says`.
    fn fake(path: &Path, says: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{says}\n")).unwrap();
        fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_virtual_environment_says_its_version_and_packages_without_being_started() {
        let folder = tempfile::tempdir().unwrap();
        let (root, run) = (folder.path().join("venv"), folder.path().join("run"));
        fs::create_dir_all(&run).unwrap();
        fake(&root.join("bin/python"), "exit 1");
        fs::write(root.join("pyvenv.cfg"), "home = /usr/bin\nversion_info = 3.12.3.final.0\n").unwrap();
        for name in ["numpy-2.1.0.dist-info", "old-1.egg-info", "numpy"] {
            fs::create_dir_all(root.join("lib/python3.12/site-packages").join(name)).unwrap();
        }
        let of = || {
            Interpreters::default().of(
                &values(&[("run", text(&format!("{}/bin/python x", root.display())))]),
                &run,
                &run,
            )
        };
        let interpreter = of().unwrap();
        assert_eq!(interpreter.python.as_deref(), Some("3.12.3"));
        let list =
            fs::read_to_string(run.join(format!("packages-{}.txt", &interpreter.packages.clone().unwrap()[..12])))
                .unwrap();
        assert_eq!(list, "numpy-2.1.0\nold-1\n");
        fs::create_dir_all(root.join("lib/python3.12/site-packages/more-3.dist-info")).unwrap();
        assert_ne!(of().unwrap().packages, interpreter.packages, "a further package is another environment");
    }

    #[test]
    fn packages_of_an_environment_with_those_of_the_system_count() {
        let folder = tempfile::tempdir().unwrap();
        let (root, base) = (folder.path().join("venv"), folder.path().join("base"));
        let python = root.join("bin/python");
        fake(&python, &format!("echo 3.12.3; echo /bin/sh; echo {0}; echo {0}", base.display()));
        fs::write(root.join("pyvenv.cfg"), "include-system-site-packages = true\nversion = 3.12.3\n").unwrap();
        fs::create_dir_all(base.join("lib/python3.12/site-packages/numpy-2.1.0.dist-info")).unwrap();
        let of_base = look(&python, folder.path(), folder.path()).packages;
        fs::create_dir_all(root.join("lib/python3.12/site-packages/more-3.dist-info")).unwrap();
        let of_both = look(&python, folder.path(), folder.path()).packages;
        assert!(of_base.is_some() && of_base != of_both, "{of_base:?}");
    }

    #[test]
    fn another_python_is_asked_and_has_no_version_if_it_fails() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let python = dir.join("bin/python3");
        fs::create_dir_all(dir.join("base/conda-meta")).unwrap();
        fs::write(dir.join("base/conda-meta/torch-2.5-0.json"), "").unwrap();
        fake(&python, &format!("echo 3.11.9; echo /bin/sh; echo {0}/base; echo {0}/base", dir.display()));
        let interpreter = look(&python, dir, dir);
        assert_eq!(interpreter.python.as_deref(), Some("3.11.9"));
        assert!(interpreter.packages.is_some());
        fake(&python, "exit 2");
        assert_eq!(look(&python, dir, dir).python, None);
        fake(&python, "true");
        assert_eq!(look(&python, dir, dir).python, None);
    }
}
