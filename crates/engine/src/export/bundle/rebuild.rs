//! Rebuilds the Python environments that the records of a bundle name, from the registries for which this machine is configured.
//!
//! `uv` creates them if it is on the `PATH`, else `python -m venv` and `pip`. Packages that a program imported get the versions of its
//! record; the installer chooses the versions of further packages that they need. System libraries, programs and containers are not
//! rebuilt: a rerun records its own environment, and the differences are shown.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fs_err as fs;
use sweep_job::{Value, Values};

use super::{Opened, Places, Rerun};
use crate::{
    host::started,
    plan::{JobId, Plan},
    record::{Environment, Part, Record},
    store::Store,
};

/// The folder of environments in a bundle.
pub(super) const ENVIRONMENTS: &str = "environments";
/// Packages of this program, which gives jobs its own module.
const OWN: [&str; 2] = ["sweep-ablations", "sweep"];
/// Lines of a failed installer's output that are shown, at most.
const MAX_LINES: usize = 8;

/// An environment of Python: the versions of Python and of the packages that a program imported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PythonEnvironment {
    python: Option<String>,
    packages: BTreeMap<String, String>,
}

/// The environment in which a job runs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// An environment of Python, which can be rebuilt.
    Python(PythonEnvironment),
    /// The environment of this machine, with the reason for people: the job is a task of this program, or its program is not Python.
    Present(&'static str),
    /// Unknown; the reason.
    Unknown(String),
}

/// A rebuilt environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Its folder.
    pub folder: PathBuf,
    /// A sentence about differences from the record.
    pub notice: Option<String>,
}

impl Opened {
    /// The environment that the bundle has of a record.
    pub fn environment(&self, record: &Record) -> Option<Environment> {
        let id = record.provenance.conditions.as_ref()?.environment.as_ref()?;
        // An identifier must not contain parts of a path.
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        parsed(&fs::read(self.folder().join(ENVIRONMENTS).join(format!("{id}.json"))).ok()?)
    }

    /// The environments in which the jobs of a plan ran, by the bundle's records in `store`.
    pub fn wanted_environments(&self, plan: &Plan, store: &Store) -> BTreeMap<JobId, Wanted> {
        let wanted = |(id, _)| (id, self.wanted(plan, id, store));
        plan.jobs().map(wanted).collect()
    }

    fn wanted(&self, plan: &Plan, id: JobId, store: &Store) -> Wanted {
        let job = plan.job(id);
        if job.task.name != "command" {
            return Wanted::Present("tasks of this program");
        }
        let Some(record) = store.get(job.key).ok().flatten() else {
            return Wanted::Unknown("the bundle has no record of it".to_owned());
        };
        let Some(environment) = self.environment(&record) else {
            let reason = "the bundle has no environment of it: its program was not observed, or an earlier version made the bundle";
            return Wanted::Unknown(reason.to_owned());
        };
        let interpreter = record.provenance.conditions.as_ref().and_then(|conditions| conditions.interpreter.as_ref());
        let python = interpreter.and_then(|interpreter| interpreter.python.clone());
        let mut packages = environment.packages;
        packages.retain(|name, _| !OWN.contains(&name.as_str()));
        if python.is_none() && packages.is_empty() {
            return Wanted::Present("programs other than Python");
        }
        match PythonEnvironment::new(python, packages) {
            Ok(environment) => Wanted::Python(environment),
            Err(reason) => Wanted::Unknown(reason),
        }
    }
}

impl PythonEnvironment {
    /// An environment from a bundle, which comes from an untrusted source: its texts are arguments of the installers, and must be no options,
    /// paths or addresses.
    fn new(python: Option<String>, packages: BTreeMap<String, String>) -> Result<Self, String> {
        let is_word = |text: &str, more: &str| {
            text.starts_with(|char: char| char.is_ascii_alphanumeric())
                && text.chars().all(|char| char.is_ascii_alphanumeric() || more.contains(char))
        };
        if let Some(version) = python.as_deref().filter(|version| !is_word(version, ".+")) {
            return Err(format!("`{version}` is not a version of Python"));
        }
        match packages.iter().find(|(name, version)| !(is_word(name, "._-") && is_word(version, ".+!_-"))) {
            Some((name, version)) => Err(format!("`{name}` `{version}` is not a package with a version")),
            None => Ok(Self { python, packages }),
        }
    }

    /// The packages as the installers take them: `numpy==2.1.0`.
    pub fn requirements(&self) -> Vec<String> {
        self.packages.iter().map(|(name, version)| format!("{name}=={version}")).collect()
    }

    /// The version of Python.
    pub fn python(&self) -> &str {
        self.python.as_deref().unwrap_or("3")
    }

    /// Makes it in a folder that does not exist.
    ///
    /// # Errors
    /// There is no such Python, or a package cannot be installed: the reason, with the end of the installer's output.
    pub fn build(&self, folder: &Path) -> Result<Built, String> {
        let has_uv = run(Command::new("uv").arg("--version")).is_ok();
        let python = if has_uv { self.with_uv(folder)? } else { self.with_venv(folder)? };
        let requirements = self.requirements();
        if !requirements.is_empty() {
            let interpreter = folder.join("bin/python");
            let mut install = if has_uv {
                let mut uv = Command::new("uv");
                uv.args(["pip", "install", "--quiet", "--python"]).arg(&interpreter);
                uv
            } else {
                let mut pip = Command::new(&interpreter);
                pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
                pip
            };
            // In a folder without settings of a project.
            install.args(&requirements).current_dir(folder).env_remove("PYTHONPATH");
            run(&mut install).map_err(|reason| format!("its packages cannot be installed: {reason}"))?;
        }
        let notice = match (&self.python, python) {
            (Some(wanted), Some(version)) if *wanted != version => {
                Some(format!("Python {version} replaces {wanted}, which this machine does not have"))
            }
            _ => None,
        };
        Ok(Built { folder: folder.to_owned(), notice })
    }

    /// The suitable versions of Python: the record's version, or another patch release of it.
    fn versions(&self) -> Vec<String> {
        let version = self.python().to_owned();
        let minor = version.split('.').take(2).collect::<Vec<_>>().join(".");
        if minor == version { vec![version] } else { vec![version, minor] }
    }

    /// Makes an environment without packages, and returns its version of Python.
    fn with_uv(&self, folder: &Path) -> Result<Option<String>, String> {
        let mut reason = String::new();
        for version in self.versions() {
            let mut uv = Command::new("uv");
            uv.args(["venv", "--quiet", "--no-project", "--python", &version]).arg(folder);
            match run(&mut uv) {
                Ok(_) => return Ok(version_of(&folder.join("bin/python"))),
                Err(error) => reason = error,
            }
        }
        Err(format!("uv cannot make an environment of Python {}: {reason}", self.python()))
    }

    fn with_venv(&self, folder: &Path) -> Result<Option<String>, String> {
        let versions = self.versions();
        let minor = versions.last().map_or("3", String::as_str);
        let fits = |version: &str| version == minor || version.starts_with(&format!("{minor}."));
        let names = [format!("python{minor}"), "python3".to_owned(), "python".to_owned()];
        let found = names.iter().find(|name| version_of(Path::new(name)).is_some_and(|version| fits(&version)));
        let Some(python) = found else {
            return Err(format!(
                "there is neither `uv` nor Python {minor} on the PATH; install one of them, for example with `pip install uv`"
            ));
        };
        let mut venv = Command::new(python);
        run(venv.args(["-m", "venv"]).arg(folder)).map_err(|reason| format!("`{python} -m venv` fails: {reason}"))?;
        Ok(version_of(&folder.join("bin/python")))
    }
}

/// The version of a Python: `3.11.7`.
fn version_of(python: &Path) -> Option<String> {
    let text = run(Command::new(python).args(["-I", "-S", "-c", "import sys; print(sys.version.split()[0])"])).ok()?;
    Some(text.trim().to_owned()).filter(|version| !version.is_empty())
}

/// The output of a program, or the end of its complaints.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such program".to_owned(),
        _ => error.to_string(),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = complaint.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
    Err(if last.is_empty() { output.status.to_string() } else { last.join("; ") })
}

impl Rerun {
    /// Lets jobs run in rebuilt environments, by their jobs. Jobs with a reason instead of an environment do not run, and neither do the
    /// jobs that need them.
    #[must_use]
    pub fn in_environments(self, environments: &BTreeMap<JobId, Result<PathBuf, String>>) -> Self {
        let Self { plan, sample, mut left } = self;
        let mut kept = Vec::new();
        for id in sample {
            let reason = plan.with_needs([id]).into_iter().find_map(|need| environments.get(&need)?.as_ref().err());
            match reason {
                Some(reason) => left.push((plan.job(id).label.to_string(), reason.clone())),
                None => kept.push(id),
            }
        }
        let jobs = plan.with_needs(kept.iter().copied());
        let places: BTreeMap<JobId, usize> = jobs.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let part = plan.part(&jobs, |id, values| {
            if let Some(Ok(folder)) = environments.get(&id) {
                enter(values, folder);
            }
        });
        let sample = kept.iter().filter_map(|id| places.get(id)).map(|place| JobId::new(*place)).collect();
        Self { plan: part.alone(), sample, left }
    }
}

/// Lets a program find an environment before everything else on the `PATH`.
fn enter(values: &mut Values, folder: &Path) {
    let (Ok(bin), Some(root)) = (folder.join("bin").into_os_string().into_string(), folder.to_str()) else { return };
    let mut variables = match values.get("env") {
        Some(Value::Map(variables)) => variables.clone(),
        _ => BTreeMap::new(),
    };
    let others = match variables.get("PATH") {
        Some(Value::Text(path)) => Some(OsString::from(path)),
        _ => env::var_os("PATH"),
    };
    let others = others.and_then(|path| path.into_string().ok()).filter(|path| !path.is_empty());
    let path = others.map_or_else(|| bin.clone(), |others| format!("{bin}:{others}"));
    variables.insert("PATH".to_owned(), Value::Text(path));
    variables.insert("VIRTUAL_ENV".to_owned(), Value::Text(root.to_owned()));
    // Packages beside the environment would be found first.
    variables.entry("PYTHONPATH".to_owned()).or_insert_with(|| Value::Text(String::new()));
    let mut changed = vec![("env", Value::Map(variables))];
    if let Some(Value::List(argv)) = values.get("argv")
        && let Some(Value::Text(program)) = argv.first()
        && program.contains('/')
        && started::is_python(Path::new(program))
    {
        let mut argv = argv.clone();
        argv[0] = Value::Text(format!("{bin}/python"));
        changed.push(("argv", Value::List(argv)));
    }
    values.extend(changed);
}

/// An environment in which paths were changed since it got its identifier; `None` if the text is not an environment of this version.
fn parsed(text: &[u8]) -> Option<Environment> {
    const FORMAT: &str = "format";
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let own = serde_json::to_value(Environment::default()).ok()?;
    if value.get(FORMAT) == own.get(FORMAT) { serde_json::from_value(value).ok() } else { None }
}

/// The environments that records name, without the folders of the author's machine.
pub(super) fn of_records<'r>(
    records: impl Iterator<Item = &'r String>,
    store: &Store,
    places: &Places,
) -> BTreeMap<String, Environment> {
    let ids: BTreeSet<&String> = records.collect();
    ids.into_iter().filter_map(|id| Some((id.clone(), without_folders(store.environment(id)?, places)))).collect()
}

fn without_folders(mut environment: Environment, places: &Places) -> Environment {
    let named = |parts: BTreeMap<String, Part>| -> BTreeMap<String, Part> {
        let name = |path: String| path.rsplit('/').next().unwrap_or_default().to_owned();
        parts.into_iter().map(|(path, part)| (name(path), part)).collect()
    };
    environment.programs = named(environment.programs);
    environment.libraries = named(environment.libraries);
    environment.command = environment.command.map(|path| places.without_paths(&path));
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_finds_its_environment_first() {
        let text = |text: &str| Value::Text(text.to_owned());
        let mut values: Values = [
            ("argv", Value::List(vec![text("/opt/venv/bin/python3.11"), text("train.py")])),
            ("env", Value::Map([("PATH".to_owned(), text("/bin"))].into())),
        ]
        .into();
        enter(&mut values, Path::new("/e"));
        assert_eq!(values.get("argv"), Some(&Value::List(vec![text("/e/bin/python"), text("train.py")])));
        let Some(Value::Map(variables)) = values.get("env") else { panic!("{values:?}") };
        assert_eq!(variables["PATH"], text("/e/bin:/bin"));
        assert_eq!((&variables["VIRTUAL_ENV"], &variables["PYTHONPATH"]), (&text("/e"), &text("")));
        let mut plain: Values = [("argv", Value::List(vec![text("python3")]))].into();
        enter(&mut plain, Path::new("/e"));
        assert_eq!(plain.get("argv"), Some(&Value::List(vec![text("python3")])), "found on the PATH");
    }

    #[test]
    fn texts_of_a_bundle_are_no_options_of_the_installers() {
        let packages = |name: &str, version: &str| [(name.to_owned(), version.to_owned())].into();
        PythonEnvironment::new(Some("3.13.0rc1".into()), packages("ruamel.yaml", "1!0.2.post1+cu121")).unwrap();
        for (name, version) in
            [("--index-url=http://x", "1"), ("a", "1 --pre"), ("./a", "1"), ("a", ""), ("a @ http://x", "1")]
        {
            let error = PythonEnvironment::new(None, packages(name, version)).unwrap_err();
            assert!(error.ends_with("is not a package with a version"), "{error}");
        }
        PythonEnvironment::new(Some("/tmp/python".into()), BTreeMap::new()).unwrap_err();
    }

    #[test]
    fn another_patch_of_python_serves_and_another_minor_version_does_not() {
        let environment =
            |python: Option<&str>| PythonEnvironment { python: python.map(str::to_owned), packages: BTreeMap::new() };
        assert_eq!(environment(Some("3.11.7")).versions(), ["3.11.7", "3.11"]);
        assert_eq!(environment(None).versions(), ["3"]);
        assert_eq!(version_of(Path::new("/no/such/python")), None);
    }
}
