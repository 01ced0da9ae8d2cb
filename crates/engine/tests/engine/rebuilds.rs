//! `sweep bundle verify --rebuild`: environments of Python that records name are made anew. Packages are in a folder, so no registry is asked.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox};

/// Writes a package with one module as a wheel: the folder, the name, the version and the source.
const WHEEL: &str = "
import sys, zipfile
folder, name, version, source = sys.argv[1:]
info = f'{name}-{version}.dist-info'
files = {f'{name}.py': source, f'{info}/METADATA': f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n',
         f'{info}/WHEEL': 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'}
files[f'{info}/RECORD'] = ''.join(f'{path},,\\n' for path in files) + f'{info}/RECORD,,\\n'
with zipfile.ZipFile(f'{folder}/{name}-{version}-py3-none-any.whl', 'w') as wheel:
    for path, content in files.items():
        wheel.writestr(path, content)
";

const RECIPE: &str = "
name: study
steps:
  train:
    uses: command
    seeds: 2
    with: { argv: [python3, train.py], inputs: [train.py] }
  plain: { uses: command, with: { run: 'echo total=3' } }
  own: { uses: mock, with: { value: 3 } }
tables: { t: { from: train, rows: [], cells: [score] } }
";

fn quiet(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            eprintln!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            false
        }
        Err(error) => {
            eprintln!("{command:?}: {error}");
            false
        }
    }
}

fn wheel(folder: &Path, version: &str, score: u32) -> bool {
    fs_err::create_dir_all(folder).unwrap();
    let source = format!("def score():\n    return {score}\n");
    let place = folder.display().to_string();
    quiet(Command::new("python3").args(["-c", WHEEL, &place, "scorer", version, &source]))
}

/// A finished study whose program imports version 1.0 of a package, in an environment that is gone, and its bundle. `None` without `venv`.
fn bundled() -> Option<Sandbox> {
    let sandbox = Sandbox::with(RECIPE);
    let venv = sandbox.path("venv");
    let has_venv = quiet(Command::new("python3").args(["-m", "venv"]).arg(&venv))
        && wheel(&sandbox.path("wheels"), "1.0", 7)
        && wheel(&sandbox.path("wheels"), "2.0", 9);
    if !has_venv {
        eprintln!("no environment is made: Python has no `venv` here");
        return None;
    }
    let package = sandbox.path("wheels/scorer-1.0-py3-none-any.whl");
    let pip = ["-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check"];
    assert!(quiet(Command::new(venv.join("bin/python")).args(pip).arg(package)));
    // Python imports parts of it at its start, if it is there, and it is no package of the folder.
    let uninstall = ["-m", "pip", "uninstall", "-q", "-y", "setuptools"];
    assert!(quiet(Command::new(venv.join("bin/python")).args(uninstall)));
    sandbox.write("train.py", "import scorer\nprint(f'score={scorer.score()}')\n");
    let run = sandbox.command(&["run", "recipe.yaml"]).env("PATH", path(&venv)).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(sandbox.sweep(&["bundle", "create", "recipe.yaml"]).code, Some(0));
    for gone in ["venv", "results", "train.py"] {
        let gone = sandbox.path(gone);
        let _ = fs_err::remove_dir_all(&gone).or_else(|_| fs_err::remove_file(&gone));
    }
    Some(sandbox)
}

/// The `PATH` with the programs of an environment first.
fn path(venv: &Path) -> String {
    format!("{}:{}", venv.join("bin").display(), std::env::var("PATH").unwrap())
}

/// The `PATH` without `uv`, in a folder of the sandbox: links to Python and the shell's programs.
fn without_uv(sandbox: &Sandbox) -> String {
    let folder = sandbox.path("programs");
    let _ = fs_err::create_dir(&folder);
    let search = std::env::var_os("PATH").unwrap();
    // The program on the `PATH` may be a script that starts another one.
    let real = Command::new("python3").args(["-c", "import sys; print(sys._base_executable)"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let _ = std::os::unix::fs::symlink(real.trim(), folder.join("python3"));
    for name in ["sh", "cat", "env"] {
        let found: Option<PathBuf> =
            std::env::split_paths(&search).map(|place| place.join(name)).find(|path| path.is_file());
        let _ = std::os::unix::fs::symlink(found.unwrap(), folder.join(name));
    }
    folder.display().to_string()
}

/// Verifies the bundle with packages from a folder alone.
fn verify(sandbox: &Sandbox, wheels: &str, path: Option<&str>, args: &[&str]) -> Ended {
    let args = [&["bundle", "verify", "study.sweep.tar", "--seed", "1"], args].concat();
    let mut command = sandbox.command(&args);
    let wheels = sandbox.path(wheels);
    command
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", &wheels)
        .env("UV_NO_INDEX", "1")
        .env("UV_FIND_LINKS", &wheels);
    command.env("UV_PYTHON_DOWNLOADS", "never").env("UV_OFFLINE", "1").env("HOME", sandbox.path("home"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn jobs_run_again_in_an_environment_with_the_recorded_versions() {
    let Some(sandbox) = bundled() else { return };
    let without = verify(&sandbox, "wheels", None, &["--rerun", "4", "--yes"]);
    assert_eq!(without.code, Some(1), "this Python has no such package: {}{}", without.stdout, without.stderr);
    // With `uv`, if it is there, and without.
    let path = without_uv(&sandbox);
    for path in [None, Some(path.as_str())] {
        let ended = verify(&sandbox, "wheels", path, &["--rerun", "4", "--rebuild", "--yes"]);
        assert_eq!(ended.code, Some(0), "{path:?} {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("these packages are installed into new environments"), "{}", ended.stderr);
        assert!(ended.stderr.contains(": scorer==1.0\n"), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("making an environment: Python 3").count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("no environment is made for 1 job (plain)"), "{}", ended.stderr);
        assert!(ended.stderr.contains("no environment is made for 1 job (own)"), "{}", ended.stderr);
        assert!(ended.stdout.contains("4 of 4 jobs that ran again agree"), "{}", ended.stdout);
    }
    // Without `--rerun`, a sample of three.
    let ended = verify(&sandbox, "wheels", None, &["--rebuild", "--yes", "--format", "json"]);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["reruns"]["jobs"].as_array().unwrap().len(), 3, "{answer:#}");
    assert!(answer["reruns"]["environment"].is_array());
    let mut parts = answer["reruns"]["environment"].as_array().unwrap().iter().filter_map(|part| part["part"].as_str());
    assert!(parts.all(|part| part != "package scorer"), "{answer:#}");
}

#[test]
fn an_environment_that_cannot_be_made_confirms_nothing() {
    let Some(sandbox) = bundled() else { return };
    let refused = verify(&sandbox, "wheels", None, &["--rebuild"]);
    assert_eq!(refused.code, Some(2), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("`--yes` runs them"), "{}", refused.stderr);
    fs_err::remove_file(sandbox.path("wheels/scorer-1.0-py3-none-any.whl")).unwrap();
    let ended = verify(&sandbox, "wheels", None, &["--rerun", "4", "--rebuild", "--yes"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let expected = "cannot run again here: its environment cannot be made: its packages cannot be installed: ";
    assert_eq!(ended.stdout.matches(expected).count(), 2, "{}", ended.stdout);
    assert!(ended.stdout.contains("scorer"), "{}", ended.stdout);
    assert!(ended.stdout.contains("2 jobs of the selection cannot run again"), "{}", ended.stdout);
    assert!(ended.stdout.contains("2 of 2 jobs that ran again agree"), "{}", ended.stdout);
}

#[test]
fn a_bundle_names_environments_without_folders_of_its_author() {
    let Some(sandbox) = bundled() else { return };
    let mut archive = tar::Archive::new(fs_err::File::open(sandbox.path("study.sweep.tar")).unwrap());
    let mut environments = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().starts_with("sweep-bundle/environments") {
            environments.push(std::io::read_to_string(&mut entry).unwrap());
        }
    }
    let with_package: Vec<&String> = environments.iter().filter(|text| text.contains("scorer")).collect();
    assert_eq!(with_package.len(), 1, "one for all seeds: {environments:?}");
    let environment: Value = serde_json::from_str(with_package[0]).unwrap();
    assert_eq!(environment["packages"]["scorer"], "1.0");
    let names = environment["libraries"].as_object().unwrap().keys();
    assert!(names.clone().count() > 0 && names.clone().all(|name| !name.contains('/')), "{environment:#}");
    assert!(!with_package[0].contains(&sandbox.path("").display().to_string()), "{environment:#}");
}
