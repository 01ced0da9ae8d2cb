//! Needs of a job on a host: its project, its other input files, and the records of needed jobs; and the job itself, with the
//! paths of the host.
//!
//! On the host a job starts in the folder of its project. Other inputs are in separate trees beside it, so that all paths are known before
//! anything is sent: they are relative, and the server makes them absolute. Keys contain digests, not paths, and do not change.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;
use sweep_job::{Ignore, Kind, Task, TaskInfo, Value, tasks::ignored};

use super::{
    HostError, Project,
    project::digest,
    trees::{Content, Entry, Tree},
};
use crate::{
    plan::{Digests, Made, SerializedJob, digest_of},
    record::{self, Key},
    store::Store,
};

/// Everything that a job needs on a host.
#[derive(Debug, Clone)]
pub struct Shipment {
    /// The files of its project.
    pub project: Project,
    /// Its other input files.
    pub inputs: Vec<InputTree>,
    /// Needed jobs, of which the host needs the records.
    pub records: Vec<Key>,
    /// The store that has these records.
    pub store: Store,
}

/// An input file or folder outside of the project, by content.
#[derive(Debug, Clone)]
pub struct InputTree {
    tree: Tree,
    digest: String,
    sources: BTreeMap<String, PathBuf>,
}

/// A job for a host.
#[derive(Debug, Clone)]
pub struct Hosted {
    /// The job, with the paths of the host.
    pub spec: SerializedJob,
    /// Everything that it needs there.
    pub shipment: Shipment,
}

impl InputTree {
    /// Reads a file or a folder.
    fn of(path: &Path, rules: &Rules<'_>) -> io::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| io::Error::other(format!("the name of {} is not UTF-8", path.display())))?;
        let mut files = Files { rules, entries: Vec::new(), sources: BTreeMap::new() };
        files.add(path, name, Path::new(""), 0)?;
        let Files { entries, sources, .. } = files;
        let tree = Tree::new(entries);
        Ok(Self { digest: tree.digest(), tree, sources })
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    pub(super) fn sources(&self) -> &BTreeMap<String, PathBuf> {
        &self.sources
    }
}

/// Files that are in the folder of an input, but no part of it.
struct Rules<'a> {
    ignore: &'a Ignore,
    made: &'a Made,
    results: Option<PathBuf>,
}

/// Files of an input on their way to a host.
struct Files<'a> {
    rules: &'a Rules<'a>,
    entries: Vec<Entry>,
    sources: BTreeMap<String, PathBuf>,
}

impl Files<'_> {
    /// Adds a file, or the files of a folder that are not ignored. Links are followed, as they are for digests. `relative_path`
    /// is the path from the input.
    fn add(&mut self, path: &Path, inner: &str, relative_path: &Path, depth: usize) -> io::Result<()> {
        /// Deeper folders are circles of links.
        const MAX_DEPTH: usize = 100;
        let metadata = fs::metadata(path)?;
        if metadata.is_file() {
            let blob = digest(path)?;
            if depth > 0 && self.rules.made.is_made(path, &digest_of(path, &blob)) {
                return Ok(());
            }
            let executable = metadata.permissions().mode() & 0o100 != 0;
            self.sources.entry(blob.clone()).or_insert_with(|| path.to_owned());
            self.entries.push(Entry { path: inner.to_owned(), content: Content::File { blob, executable } });
            return Ok(());
        }
        if !metadata.is_dir() || depth > MAX_DEPTH {
            return Err(io::Error::other(format!("{} is neither a file nor a folder", path.display())));
        }
        let entry_count = self.entries.len();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let (full_path, name) = (entry.path(), entry.file_name());
            let relative_path = relative_path.join(&name);
            let is_folder = full_path.is_dir();
            let Rules { ignore, results, .. } = self.rules;
            let is_results = is_folder && results.is_some() && fs::canonicalize(&full_path).ok() == *results;
            if is_results || ignore.is_ignored(&relative_path.to_string_lossy(), is_folder) {
                continue;
            }
            let name = name.to_str();
            let name =
                name.ok_or_else(|| io::Error::other(format!("the name of {} is not UTF-8", full_path.display())))?;
            self.add(&full_path, &format!("{inner}/{name}"), &relative_path, depth + 1)?;
        }
        if self.entries.len() == entry_count && (depth == 0 || !self.rules.made.is_made(path, Made::FOLDER)) {
            self.entries.push(Entry { path: inner.to_owned(), content: Content::Folder });
        }
        Ok(())
    }
}

/// A job as it goes to a host. `folder` is the one in which the sweep was started: relative paths begin there.
pub fn hosted(mut spec: SerializedJob, project: &Project, store: &Store, folder: &Path) -> Result<Hosted, HostError> {
    let mut inputs: Vec<InputTree> = Vec::new();
    if spec.values.get("code").is_some_and(|code| *code != Value::Null) {
        let message = "a variant of the code (`code`) runs on machines that share the results folder: run it here, or through a batch system";
        return Err(HostError::Project(message.to_owned()));
    }
    let ignore = Ignore::new(&ignored(&spec.values)).map_err(HostError::Project)?;
    let mut digests = Digests::open(store.digests());
    let rules = Rules { ignore: &ignore, made: digests.made(), results: fs::canonicalize(store.results()).ok() };
    each_input(&mut spec, |path| {
        *path = moved(path, project, folder, &rules, &mut inputs)?;
        Ok(())
    })?;
    let mut records: BTreeSet<Key> = spec.identity.needs.iter().collect();
    records.extend(record::taken(&spec.values).into_iter().map(|(key, _)| key));
    let records = records.into_iter().filter(|key| store.contains(*key)).collect();
    // The project's folder on the host, in which the job starts.
    if spec.project.is_some() {
        spec.project = Some(PathBuf::from("."));
    }
    each_folder(&mut spec, |folder| {
        let outside_error = || {
            let root = project.folder().display();
            HostError::Project(format!(
                "the folder `{folder}`, in which the program runs, is not in the project {root}"
            ))
        };
        let inner = Path::new(&*folder).strip_prefix(project.folder()).ok().and_then(|inner| inner.to_str());
        *folder = match inner.ok_or_else(outside_error)? {
            "" => ".".to_owned(),
            inner => inner.to_owned(),
        };
        Ok(())
    })?;
    spec.needs = Vec::new();
    spec.lists = Vec::new();
    let shipment = Shipment { project: project.clone(), inputs, records, store: store.clone() };
    Ok(Hosted { spec, shipment })
}

/// Changes the paths of the input files of a job.
pub fn each_input<E>(spec: &mut SerializedJob, mut change: impl FnMut(&mut String) -> Result<(), E>) -> Result<(), E> {
    for param in Task::info(&spec.identity.task).into_iter().flat_map(TaskInfo::params) {
        let Some(value) = spec.values.get_mut(param.name) else { continue };
        for (part, path) in record::input_paths(param.kind, value) {
            // Artifacts of needed jobs are not inputs.
            if spec.identity.inputs.contains_key(&record::digest_name(param.name, part.as_ref())) {
                change(path)?;
            }
        }
    }
    Ok(())
}

/// Changes the paths of the folders that the program of a job runs in.
pub fn each_folder<E>(spec: &mut SerializedJob, mut change: impl FnMut(&mut String) -> Result<(), E>) -> Result<(), E> {
    let params = Task::info(&spec.identity.task).into_iter().flat_map(TaskInfo::params);
    for param in params.filter(|param| param.kind == Kind::Folder) {
        if let Some(Value::Text(path)) = spec.values.get_mut(param.name) {
            change(path)?;
        }
    }
    Ok(())
}

/// The path of an input on the host, from the folder of the project there.
fn moved(
    path: &str,
    project: &Project,
    folder: &Path,
    rules: &Rules<'_>,
    inputs: &mut Vec<InputTree>,
) -> Result<String, HostError> {
    let read_error = |error: io::Error| HostError::Project(format!("the input `{path}` cannot be sent: {error}"));
    let full_path = folder.join(path);
    let place = full_path.parent().zip(full_path.file_name()).and_then(|(parent, name)| {
        // The last part may be a link, and has its own name.
        project.place(&fs::canonicalize(parent).ok()?.join(name), rules.ignore, rules.made)
    });
    if let Some(place) = place.and_then(|place| place.to_str().map(str::to_owned)) {
        return Ok(place);
    }
    let tree = InputTree::of(&full_path, rules).map_err(read_error)?;
    let name = full_path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let place = format!("../{}/{name}", tree.digest);
    if inputs.iter().all(|input| input.digest != tree.digest) {
        inputs.push(tree);
    }
    Ok(place)
}

/// The values of the variables that the `env` of a job takes from the environment, as they are in this process.
pub fn declared_env(spec: &SerializedJob) -> BTreeMap<String, String> {
    let Some(Value::Map(variables)) = spec.values.get("env") else { return BTreeMap::new() };
    let names = variables.values().filter_map(|value| match value {
        Value::Map(entries) => entries.get("from")?.as_text(),
        _ => None,
    });
    names.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?))).collect()
}
