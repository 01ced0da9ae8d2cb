//! The Python module: its own tests, with each Python and each set of packages that is there.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest Python of at least 3.9 and the newest, without any package.
#[test]
fn without_packages() {
    let found = pythons();
    if found.is_empty() {
        eprintln!("the Python module was not tested: there is no Python of at least 3.9");
    }
    let newest = found.len().saturating_sub(1);
    for (index, ((major, minor), python)) in found.iter().enumerate() {
        if index == 0 || index == newest {
            eprintln!("Python {major}.{minor}:");
            unittest(python, &["test_params", "test_report", "test_steps", "test_wandb", "test_results"]);
            unittest(python, &["test_show", "test_program"]);
        }
    }
}

#[test]
fn with_frames_and_wandb() {
    if let Some(python) = installed("SWEEP_PYTHON_MODULE", "module", &["pandas", "polars", "pyarrow", "wandb"]) {
        unittest(&python, &["test_wandb", "test_results", "test_program"]);
        unittest(&python, &["test_report.Reports.test_numpy_scalars_and_arrays_of_one"]);
    }
}

#[test]
fn in_a_notebook() {
    if let Some(python) = installed("SWEEP_PYTHON_PARSERS", "parsers", &["nbclient", "ipykernel"]) {
        unittest(&python, &["test_show"]);
    }
}

#[test]
fn with_torch() {
    if let Some(python) = installed("SWEEP_PYTHON", "transformers", &["torch"]) {
        unittest(&python, &["test_torch"]);
    }
}

#[test]
fn with_transformers() {
    if let Some(python) = installed("SWEEP_PYTHON", "transformers", &["transformers", "accelerate"]) {
        unittest(&python, &["test_huggingface"]);
    }
}

#[test]
fn with_lightning() {
    if let Some(python) = installed("SWEEP_PYTHON", "transformers", &["lightning"]) {
        unittest(&python, &["test_lightning"]);
    }
}

#[test]
fn types_and_style() {
    let Some(python) = installed("SWEEP_PYTHON_MODULE", "module", &["mypy", "ruff"]) else { return };
    for arguments in [
        &["-m", "ruff", "check", "--no-cache", "python"][..],
        &["-m", "mypy", "--config-file", "python/mypy.ini", "--cache-dir", "/dev/null"],
    ] {
        let output = Command::new(&python).args(arguments).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Runs some of the module's tests.
fn unittest(python: &Path, tests: &[&str]) {
    let mut command = Command::new(python);
    command.args(["-m", "unittest"]).args(tests).current_dir(root().join("python/tests"));
    command.env("SWEEP_BIN", env!("CARGO_BIN_EXE_sweep")).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", python.display());
    eprintln!("{}: {}", python.display(), said.lines().last().unwrap_or_default());
}

/// The Python with packages that `scripts/python-deps.sh` installs, or that of the folder in a variable; says so where there
/// is none.
fn installed(variable: &str, name: &str, packages: &[&str]) -> Option<PathBuf> {
    let made = || std::env::home_dir().map(|home| home.join(".cache/sweep").join(name));
    let folder = std::env::var_os(variable).map(PathBuf::from).or_else(made)?;
    let python = folder.join("bin/python");
    // Importing them would take seconds of processor time.
    let missing = "import importlib.util as u, sys; print(*[name for name in sys.argv[1:] if not u.find_spec(name)])";
    match Command::new(&python).args(["-c", missing]).args(packages).output() {
        Ok(output) if output.stdout.trim_ascii().is_empty() && output.status.success() => return Some(python),
        Ok(output) => {
            let missing = String::from_utf8_lossy(&output.stdout);
            eprintln!("not tested, because {} lacks {}", python.display(), missing.trim());
        }
        Err(error) => eprintln!("not tested, because {} cannot be started: {error}", python.display()),
    }
    None
}

/// The Pythons of at least 3.9 on the PATH and among those of pyenv, one of each version.
fn pythons() -> BTreeMap<(u32, u32), PathBuf> {
    let mut places: Vec<PathBuf> = (9..20).map(|minor| format!("python3.{minor}").into()).collect();
    places.push("python3".into());
    let versions = std::env::home_dir().map(|home| home.join(".pyenv/versions"));
    let folders = versions.and_then(|folder| fs_err::read_dir(folder).ok());
    places.extend(folders.into_iter().flatten().flatten().map(|entry| entry.path().join("bin/python")));
    let mut found = BTreeMap::new();
    for python in places {
        let version = "import sys; print(sys.version_info[0], sys.version_info[1])";
        let Ok(output) = Command::new(&python).args(["-c", version]).output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut parts = text.split_whitespace().filter_map(|part| part.parse::<u32>().ok());
        if let (Some(major), Some(minor)) = (parts.next(), parts.next())
            && (major, minor) >= (3, 9)
        {
            found.entry((major, minor)).or_insert(python);
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
