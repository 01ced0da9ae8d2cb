//! The files that a job reads, compared with its key: input files with the digests with which it was planned, artifacts
//! of needed jobs with those in their records.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use sweep_job::{Failure, FailureKind, FileStamp, Observed, ObservedFile};

use crate::{
    plan::{Code, Digests, JobId, Plan, digest_now, state_now},
    record::{ABSENT, Digest, ELSEWHERE, Key, Own, ReadFile, ReadSet, UNKNOWN, fact, path_text, text_path},
    store::Store,
};

/// The files that a job reads.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Input files and folders, with their digests when the job was planned.
    inputs: Vec<(PathBuf, String)>,
    artifacts: Vec<Artifact>,
    /// Code that earlier runs of the job read, as it was when the job was planned.
    code: Option<Arc<Code>>,
}

/// An artifact that one job takes from another.
#[derive(Debug)]
pub(crate) struct Artifact {
    /// The job that has left it.
    key: Key,
    label: String,
    name: String,
    /// The folder with that job's files.
    folder: PathBuf,
    /// Its path in the other job.
    path: String,
    /// All of that job's files; records of earlier versions have none.
    files: BTreeMap<String, Digest>,
}

/// An input that differs from the plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Changed {
    /// An input has another content.
    #[error("the input `{}` changed after it was planned{during}; run again", path.display())]
    Input {
        /// The file or folder.
        path: PathBuf,
        /// Time of the change, if it is known.
        during: &'static str,
    },
    /// An input is missing or not readable.
    #[error("the input `{}` cannot be read any more: {reason}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Code differs, it is not known in which file.
    #[error("the code of the project {} changed after the job was planned; run again", project.display())]
    Code {
        /// The project's folder.
        project: PathBuf,
    },
    /// An installed package has another version.
    #[error("the package {name} changed from {planned} to {found} after it was planned{during}; run again")]
    Package {
        /// The package.
        name: String,
        /// Version when the job was planned.
        planned: String,
        /// Version now.
        found: String,
        /// Time of the change, if it is known.
        during: &'static str,
    },
    /// The artifact of a needed job is damaged.
    #[error("the artifact `{name}` of {label} has changed since it was written: {reason}; run again")]
    Artifact {
        /// The name of the needed job.
        label: String,
        /// The artifact's name.
        name: String,
        /// The defect.
        reason: String,
    },
}

impl Changed {
    /// The same, found when the job had run.
    #[must_use]
    pub(crate) fn while_it_ran(mut self) -> Self {
        if let Self::Input { during, .. } | Self::Package { during, .. } = &mut self {
            *during = ", while the job ran";
        }
        self
    }
}

impl From<Changed> for Failure {
    fn from(changed: Changed) -> Self {
        Self { kind: FailureKind::Changed, message: changed.to_string() }
    }
}

impl Reads {
    /// Inputs of a job of a plan, whose needed jobs are done.
    pub(crate) fn of(plan: &Plan, store: &Store, id: JobId) -> Self {
        let taken = plan.taken_by(id).into_iter();
        let artifacts = taken.filter_map(|(key, name)| Artifact::new(store, key, name)).collect();
        Self { inputs: plan.inputs_of(id), artifacts, code: plan.job(id).code.clone() }
    }

    /// True if there are no inputs.
    pub(crate) fn is_empty(&self) -> bool {
        let no_code =
            self.code.as_ref().is_none_or(|code| code.files.is_empty() && code.facts.is_empty() && !code.stale);
        self.inputs.is_empty() && self.artifacts.is_empty() && no_code
    }

    /// Checks that all inputs are unchanged. Files that `digests` lists and that have not changed since are not read
    /// again.
    pub(crate) fn check(&self, digests: &mut Digests) -> Result<(), Changed> {
        for (path, planned) in &self.inputs {
            match digests.now(path) {
                Ok(now) if now == *planned => {}
                Ok(_) => return Err(Changed::Input { path: path.clone(), during: "" }),
                Err(error) => return Err(Changed::Unreadable { path: path.clone(), reason: error.to_string() }),
            }
        }
        self.artifacts.iter().try_for_each(|artifact| artifact.check(digests))
    }

    /// Checks that the code is that of the job's key.
    pub(crate) fn check_code(&self, digests: &mut Digests) -> Result<(), Changed> {
        let Some(code) = &self.code else { return Ok(()) };
        if code.stale {
            return Err(Changed::Code { project: code.project.clone() });
        }
        digests.forget();
        for file in &code.files {
            let path = code.path(&file.path);
            let now = digest_now(digests, &path);
            if now != file.digest && !digests.is_rewritten(&file.path) {
                return Err(Changed::Input { path, during: "" });
            }
        }
        Ok(())
    }

    /// The digests of the files that a job has read, which must be those of its key as far as that has them, and of what
    /// was read. Changes by the job itself, and by other jobs of the store, are none by others.
    pub(crate) fn observed(&self, observed: Observed, digests: &mut Digests) -> Result<ReadSet, Changed> {
        let none = Code::default();
        let code = self.code.as_deref().unwrap_or(&none);
        let planned: BTreeMap<&str, &str> =
            code.files.iter().map(|file| (file.path.as_str(), file.digest.as_str())).collect();
        digests.forget();
        let place = |text: &String| path_text(text_path(text).strip_prefix(&code.project).unwrap_or(&text_path(text)));
        let written: BTreeSet<String> = observed.written.iter().map(place).collect();
        let mut files = BTreeMap::new();
        for (name, file) in observed.files {
            let planned = planned.get(name.as_str()).copied();
            let digest = self::digest(&code.path(&name), &name, &file, planned, written.contains(&name), digests)?;
            files.insert(name, ReadFile { digest, by: file.by });
        }
        let mut facts = observed.facts;
        for (folder, names) in &observed.listed {
            let path = code.path(folder);
            let names: Vec<PathBuf> = names.iter().map(|name| path.join(text_path(name))).collect();
            let names = names.iter().filter(|path| !digests.is_made(&code.project, path));
            facts.insert(folder.clone(), fact::of_names(names.filter_map(|path| path.file_name())));
        }
        if code.hosted {
            facts.retain(|_, fact| !fact::is_local(fact));
        }
        let made: BTreeSet<String> = observed.made.iter().map(place).collect();
        let own = own(code, &files, &facts, &written, made, digests);
        for (name, folder, version) in &code.packages {
            let found = observed.packages.get(name).filter(|package| package.folder == *folder);
            if let Some(found) = found.filter(|found| found.version != *version) {
                let (name, planned, found) = (name.clone(), version.clone(), found.version.clone());
                return Err(Changed::Package { name, planned, found, during: "" });
            }
        }
        let mut packages = observed.packages;
        if code.hosted {
            for package in packages.values_mut() {
                package.folder.insert_str(0, ELSEWHERE);
            }
        }
        Ok(ReadSet::new(files, packages).with_facts(facts, own))
    }
}

/// The digest of what a job has read of a file, if it is not another one than planned. Of a file that the job itself changes,
/// other jobs may have changed the content before.
fn digest(
    path: &Path,
    name: &str,
    file: &ObservedFile,
    planned: Option<&str>,
    is_own: bool,
    digests: &mut Digests,
) -> Result<String, Changed> {
    if is_own {
        return Ok(file.digest.clone().unwrap_or_else(|| UNKNOWN.to_owned()));
    }
    // A file that did not exist then is one that the job makes.
    let planned = planned.filter(|planned| *planned != ABSENT);
    let unreadable = |error: io::Error| Changed::Unreadable { path: path.to_owned(), reason: error.to_string() };
    let digest = digests.of_file(path).map_err(unreadable)?;
    // After the digest was computed, which takes time.
    let is_as_read = FileStamp::of(&fs::metadata(path).map_err(unreadable)?) == file.stamp;
    if planned.map_or(is_as_read, |planned| planned == digest) {
        return Ok(digest);
    }
    // Another job has changed it, before this one read it or after that.
    match digests.is_left(name, &digest) {
        true if is_as_read => Ok(digest),
        true => Ok(UNKNOWN.to_owned()),
        false => Err(Changed::Input { path: path.to_owned(), during: "" }),
    }
}

/// The paths that a job looked at, or whose folder it listed, and that it has changed itself, with their states now.
fn own(
    code: &Code,
    files: &BTreeMap<String, ReadFile>,
    facts: &BTreeMap<String, String>,
    written: &BTreeSet<String>,
    made: BTreeSet<String>,
    digests: &mut Digests,
) -> Own {
    let mut own = Own::default();
    let mut listed = BTreeSet::new();
    for name in written {
        let folder = text_path(name).parent().map(path_text).unwrap_or_default();
        let is_listed = facts.get(&folder).is_some_and(|fact| fact::is_names(fact));
        if is_listed {
            listed.insert(folder);
        }
        if is_listed || files.contains_key(name) || facts.contains_key(name) {
            own.left.insert(name.clone(), state_now(digests, &code.path(name)));
        }
    }
    own.made = made.into_iter().filter(|name| own.left.contains_key(name)).collect();
    digests.add_own(&own);
    for folder in listed {
        let path = code.path(&folder);
        let now = fact::now(&facts[&folder], &path, &mut |entry| digests.is_made(&code.project, entry));
        own.left.insert(folder, now);
    }
    own
}

impl Artifact {
    /// An artifact of a finished job; `None` if it has no such record or no such artifact, which is found out elsewhere.
    pub(crate) fn new(store: &Store, key: Key, name: String) -> Option<Self> {
        let record = store.get(key).ok().flatten()?;
        let path = Path::new(record.outcome.artifacts.get(&name)?);
        let parts = path.components().filter(|part| *part != Component::CurDir);
        let path = parts.collect::<PathBuf>().to_str()?.to_owned();
        Some(Self { key, label: record.label, name, folder: store.files(key), path, files: record.files })
    }

    /// The job that has left it.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Name of the artifact.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Checks that it is unchanged.
    pub(crate) fn check(&self, digests: &mut Digests) -> Result<(), Changed> {
        let reason = self.damage(digests).unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Some("it is gone".to_owned()),
            _ => Some(error.to_string()),
        });
        let Some(reason) = reason else { return Ok(()) };
        Err(Changed::Artifact { label: self.label.clone(), name: self.name.clone(), reason })
    }

    /// The defect, if any.
    fn damage(&self, digests: &mut Digests) -> io::Result<Option<String>> {
        let mut found = BTreeSet::new();
        names(&self.folder, &self.path, &mut found)?;
        if self.files.is_empty() {
            return Ok(None);
        }
        let mut written: BTreeMap<&str, &Digest> = self.written(&self.path);
        if written.values().any(|file| matches!(file, Digest::Link { .. })) {
            // A link leads to another of the job's files, and that may be read, too.
            written = self.written("");
            found.clear();
            names(&self.folder, "", &mut found)?;
        }
        for (name, file) in &written {
            if !found.remove(*name) {
                return Ok(Some(format!("{name} is missing")));
            }
            let path = self.folder.join(name);
            let is_whole = match file {
                Digest::File { bytes, blake3 } => {
                    let metadata = fs::symlink_metadata(&path)?;
                    metadata.is_file() && metadata.len() == *bytes && digests.of_artifact(&path)? == *blake3
                }
                Digest::Link { to } => fs::read_link(&path).is_ok_and(|now| now == *to),
            };
            if !is_whole {
                return Ok(Some(format!("{name} has another content")));
            }
        }
        Ok(found.first().map(|name| format!("{name} does not belong to it")))
    }

    /// The digests of what is at a path and below it.
    fn written(&self, path: &str) -> BTreeMap<&str, &Digest> {
        let files = self.files.iter().filter(|(name, _)| Path::new(name).starts_with(path));
        files.map(|(name, file)| (name.as_str(), file)).collect()
    }
}

/// The names of the files and links at a path in a folder and below it. Links are not followed.
fn names(folder: &Path, inner: &str, found: &mut BTreeSet<String>) -> io::Result<()> {
    let path = folder.join(inner);
    if !fs::symlink_metadata(&path)?.is_dir() {
        found.insert(inner.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        names(folder, &if inner.is_empty() { name.into_owned() } else { format!("{inner}/{name}") }, found)?;
    }
    Ok(())
}
