//! A study as one archive that others can check: the recipe as it was read, the files that its jobs read, the keys of its jobs, their
//! records, where they ran, and the report.
//!
//! [`write()`] writes it. [`unpack`] and [`Opened::verify`] trust nothing in it: the recipe is planned again, every key is computed from
//! its identity, and every table, figure and verdict from the records. `statement.rs` signs an archive, and `rebuild.rs` makes the
//! environments that its records name.

mod latex;
mod limits;
mod places;
mod rebuild;
mod rerun;
mod ro_crate;
mod statement;
mod verify;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sweep_job::Backend;
use tar::{Builder, EntryType};

use self::{
    places::{AllNeeded, Needed, Places},
    ro_crate::{Described, Done},
    writer::Writer,
};
pub use self::{
    rebuild::{Built, PythonEnvironment, Wanted},
    rerun::{Command, Compared, Differing, Rerun, commands, sample},
    statement::{Attested, attest, attested, statement_file},
    verify::{Opened, Verified},
};
use crate::{
    analysis::claimed,
    batches::sampler_files,
    host::archive::{self, Item, Unreadable},
    plan::{Digests, Plan, hidden, normal, relative},
    recipe::{Request, Step},
    record::{Key, Record},
    remote::RemoteError,
    store::{Origin, Store, StoreError},
};

/// Version of the form. 1: first; 2: a scale; 3: the files that jobs read, without paths of the machine that wrote it.
const FORMAT: u32 = 3;
/// The first version in which paths are relative to the recipe.
const RELATIVE: u32 = 3;
/// The folder of the recipes and of the files that jobs read.
const SOURCES: &str = "sources";
/// The folder of the files with the items that claims are about.
const ITEMS: &str = "items";
/// The folder in the archive.
const TOP: &str = "sweep-bundle";
/// The file that lists the contents of a bundle.
const CONTENTS: &str = "bundle.json";

/// Contents of a bundle.
#[derive(Debug, Serialize, Deserialize)]
pub struct Contents {
    format: u32,
    /// The program's version.
    pub sweep: String,
    /// The names of the recipes.
    pub recipes: Vec<String>,
    /// The request, with paths of files in `sources`.
    request: Asked,
    /// Backend of the jobs that need a device.
    pub backend: Backend,
    /// The folder that `sources` stands for; in forms before [`RELATIVE`].
    #[serde(default, skip_serializing_if = "is_empty")]
    root: PathBuf,
    /// Folders above the recipes' in `sources`.
    #[serde(default)]
    above: usize,
    /// The digests of input files, by their paths from the recipes' folder; before [`RELATIVE`] by absolute paths.
    inputs: BTreeMap<PathBuf, String>,
    /// The paths that stand for absolute paths in a recipe, by the digests of these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    absolute: BTreeMap<String, PathBuf>,
    /// The digests of further files that jobs were observed to read, by their paths from the recipes' folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    read: BTreeMap<PathBuf, String>,
    /// Files that jobs read but the bundle does not contain, with their sizes in bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<PathBuf, u64>,
    /// Files outside of the project that jobs were observed to read, by their paths on this machine, which a bundle does not have.
    #[serde(skip)]
    pub outside: BTreeSet<PathBuf>,
    /// Digests of the code that jobs were observed to read, by the jobs' base keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    code: BTreeMap<Key, String>,
    /// The names of the variants of that code, by the values of `code`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    variants: BTreeMap<String, String>,
    /// Every job.
    pub jobs: Vec<BundledJob>,
    /// Environment of the results: properties, and their values.
    pub environment: BTreeMap<String, BTreeSet<String>>,
    /// Every other file in the archive.
    files: BTreeMap<String, Sum>,
    /// The start of the first job with a record and the end of the last one; only of a bundle that is written.
    #[serde(skip)]
    span: Option<[Timestamp; 2]>,
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// Files and changes that mean the study.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    paths: Vec<PathBuf>,
    set: Vec<String>,
    axes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scale: Option<String>,
}

impl Asked {
    /// The request with paths from the folder `root`.
    fn new(request: &Request<'_>, root: &Path) -> Self {
        Self {
            paths: request.paths.iter().map(|path| relative(&normal(path), root)).collect(),
            set: request.set.to_vec(),
            axes: request.axes.to_vec(),
            scale: request.scale.map(str::to_owned),
        }
    }
}

/// A job of the study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundledJob {
    /// Its name.
    pub label: String,
    /// Its key.
    pub key: Key,
    /// True if there is a record.
    pub done: bool,
    /// Origin of the record, if another machine than the bundle's wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Expected digest of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    bytes: u64,
    blake3: String,
}

/// Error of writing or reading a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// An I/O error, or a truncated archive.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key could not be written.
    #[error("cannot compute a job's key: {0}")]
    Key(#[from] serde_json::Error),
    /// The archive is not a bundle, or is malicious.
    #[error("this is not a bundle: {0}")]
    Foreign(String),
    /// The archive exceeds the limits of a bundle.
    #[error("the bundle was rejected: {0}")]
    TooLarge(String),
    /// The bundle comes from a later version.
    #[error("the bundle has format {0}, but this program supports formats up to {FORMAT}: use a newer version")]
    TooNew(u32),
    /// A statement cannot be signed, or a key cannot be read.
    #[error(transparent)]
    Signature(#[from] RemoteError),
    /// There is nothing to bundle.
    #[error("no job of the study is done; run the study first")]
    NothingDone,
}

impl From<Unreadable> for BundleError {
    fn from(error: Unreadable) -> Self {
        Self::Foreign(error.to_string())
    }
}

/// The folder of decisions.
const DECISIONS: &str = "decisions";

/// The decisions that a plan with searches may have followed from, as texts.
fn decisions(plan: &Plan, store: &Store) -> Result<Vec<(Key, Vec<u8>)>, BundleError> {
    let searches = |step: &Step| step.search.is_some();
    if !plan.steps().any(|(step, _)| searches(step)) {
        return Ok(Vec::new());
    }
    let jobs: BTreeSet<Key> = plan.jobs().map(|(_, job)| job.key).collect();
    let mut decisions = Vec::new();
    for (key, decision) in store.all_decisions()? {
        let name = decision.rule.get("step").and_then(|name| name.as_str());
        let is_own = name.is_none_or(|name| plan.steps().any(|(step, _)| step.name.value == name));
        if is_own && decision.members.iter().all(|member| jobs.contains(&member.key)) {
            decisions.push((key, serde_json::to_vec(&decision).map_err(io::Error::from)?));
        }
    }
    Ok(decisions)
}

/// Default limit, in bytes, of the files that jobs read and a bundle contains.
pub const MAX_INPUT: u64 = 64 << 20;

/// Writes a bundle of a study, whose report is up to date. The same results make the same bundle. It contains the files that jobs read, up
/// to a total of `most` bytes, and no path of this machine except paths that the recipe itself names.
pub fn write(
    plan: &Plan,
    request: &Request<'_>,
    store: &Store,
    most: u64,
    to: impl Write,
) -> Result<Contents, BundleError> {
    let sources: Vec<(PathBuf, &str)> = plan.sources().files().map(|(path, text)| (normal(path), text)).collect();
    let root = common_folder(sources.iter().map(|(path, _)| path.as_path()));
    let needed = AllNeeded::of(plan, &root);
    let places = Places::new(&root, &needed, store.results());
    let mut bundle = Writer { archive: Builder::new(to), files: BTreeMap::new(), places: &places };
    for (path, text) in &sources {
        if let Some((_, name)) = places.source(path) {
            bundle.add(&name, text.as_bytes())?;
        }
    }
    for (path, text) in sampler_files(plan) {
        if let Some((_, name)) = places.source(&normal(&path)) {
            bundle.add(&name, &text)?;
        }
    }
    let left_out = bundle.needed(&needed, &mut Digests::open(store.digests()), most)?;
    let Recorded { jobs, done, environment } = bundle.records(plan, store)?;
    bundle.items(plan, store)?;
    if jobs.iter().all(|job| !job.done) {
        return Err(BundleError::NothingDone);
    }
    if jobs.iter().any(|job| !job.done) {
        bundle.runs(store.results(), &jobs)?;
    }
    for (key, text) in decisions(plan, store)? {
        bundle.add(&format!("{DECISIONS}/{key}.json"), &text)?;
    }
    for study in &plan.studies {
        let (folder, plain_report) = (&study.recipe.report, study.recipe.plain_report());
        bundle.folder(&store.results().join("reports").join(folder), &Path::new("reports").join(plain_report))?;
    }
    bundle.describe(plan, request, &done, jobs.len(), &root)?;
    let contents = Contents {
        format: FORMAT,
        sweep: env!("CARGO_PKG_VERSION").to_owned(),
        recipes: plan.studies.iter().map(|study| study.recipe.name.clone()).collect(),
        request: Asked::new(request, &root),
        backend: plan.jobs().find_map(|(_, job)| job.identity.backend).unwrap_or(Backend::Cpu),
        root: PathBuf::new(),
        above: places.above,
        absolute: needed.inputs.iter().map(|input| (hidden(&input.path), input.place.clone())).collect(),
        inputs: by_place(needed.inputs),
        read: by_place(needed.code),
        left_out,
        outside: needed.outside,
        code: plan.code()?,
        variants: plan.variants.clone(),
        jobs,
        environment,
        span: ro_crate::span(&done),
        files: std::mem::take(&mut bundle.files),
    };
    let mut text = serde_json::to_vec_pretty(&contents).map_err(io::Error::from)?;
    text.push(b'\n');
    bundle.add(CONTENTS, &text)?;
    bundle.archive.into_inner()?.flush()?;
    Ok(contents)
}

/// The jobs of a study, and the contents of their records that a bundle summarizes.
#[derive(Default)]
struct Recorded {
    jobs: Vec<BundledJob>,
    done: Vec<Done>,
    environment: BTreeMap<String, BTreeSet<String>>,
}

impl<W: Write> Writer<'_, W> {
    /// Adds the records of all jobs, and the environments that they name.
    fn records(&mut self, plan: &Plan, store: &Store) -> Result<Recorded, BundleError> {
        let (mut recorded, mut environment_ids) = (Recorded::default(), BTreeSet::new());
        for (id, job) in plan.jobs() {
            let record = store.get(job.key)?;
            let origin = record.as_ref().and_then(|_| store.origin(job.key));
            let origin_text = origin.as_ref().map(ToString::to_string);
            let label = job.label.to_string();
            recorded.jobs.push(BundledJob { label, key: job.key, done: record.is_some(), origin });
            let Some(record) = record else { continue };
            let record = without_paths(&record, self.places)?;
            self.add(&format!("records/{}.json", job.key), &record.to_text()?)?;
            recorded.done.push(Done::new(id, &record));
            let conditions = record.provenance.conditions.as_ref();
            environment_ids.extend(conditions.and_then(|conditions| conditions.environment.clone()));
            let origin = origin_text.map(|origin_text| ("from", origin_text));
            for (name, value) in facts(&record).into_iter().chain(origin) {
                recorded.environment.entry(name.to_owned()).or_default().insert(value);
            }
        }
        for (id, environment) in rebuild::of_records(environment_ids.iter(), store, self.places) {
            self.add(
                &format!("{}/{id}.json", rebuild::ENVIRONMENTS),
                &serde_json::to_vec(&environment).map_err(io::Error::from)?,
            )?;
        }
        Ok(recorded)
    }

    /// Adds the files with the items that claims are about.
    fn items(&mut self, plan: &Plan, store: &Store) -> io::Result<()> {
        for (job, items) in plan.studies.iter().flat_map(claimed) {
            let (key, file) = (plan.job(job).key, &items.file);
            // A claim without its file is as undecided in the bundle as in the store.
            if let Ok(content) = fs::read(store.files(key).join(file)) {
                self.add(&format!("{ITEMS}/{key}/{file}"), &content)?;
            }
        }
        Ok(())
    }

    /// Adds the files that describe the others to people and to other programs.
    fn describe(
        &mut self,
        plan: &Plan,
        request: &Request<'_>,
        done: &[Done],
        jobs: usize,
        root: &Path,
    ) -> Result<(), BundleError> {
        let recipes = request.paths.iter().filter_map(|path| self.places.source(&normal(path)));
        let recipes: Vec<String> = recipes.map(|(_, name)| name).filter(|name| self.files.contains_key(name)).collect();
        let described = Described { plan, recipes: &recipes, done, jobs };
        self.add(ro_crate::README, described.readme().as_bytes())?;
        self.add(ro_crate::CITATION, &described.citation(root))?;
        let metadata = described.metadata(&self.files);
        Ok(self.add(ro_crate::METADATA, &metadata)?)
    }
}

/// The digests of files by their places.
fn by_place(files: Vec<Needed>) -> BTreeMap<PathBuf, String> {
    files.into_iter().map(|Needed { place, digest, .. }| (place, digest)).collect()
}

/// A record without paths of this machine. Its identity, which gives the key, keeps the paths that the recipe names.
fn without_paths(record: &Record, places: &Places) -> Result<Record, serde_json::Error> {
    let mut value = serde_json::to_value(record)?;
    if let Some(parts) = value.as_object_mut() {
        parts.iter_mut().filter(|(name, _)| *name != "identity").for_each(|(_, part)| places.without_paths_in(part));
    }
    serde_json::from_value(value)
}

/// Circumstances of a record.
fn facts(record: &Record) -> Vec<(&'static str, String)> {
    if let Some(source) = record.imported() {
        return vec![("imported from", source.to_owned())];
    }
    let provenance = &record.provenance;
    let mut facts = vec![("sweep", provenance.sweep.clone()), ("host", provenance.host.clone())];
    facts.push(("threads", provenance.threads.to_string()));
    if let Some(device) = &provenance.device {
        facts.push(("device", format!("{} ({})", device.name, device.backend.name())));
        facts.push(("driver", device.driver.clone()));
    }
    let adopted = provenance.adopted.iter().flat_map(|adopted| adopted.sentences());
    facts.extend(adopted.map(|sentence| ("adopted", format!("{}: {sentence}", record.label))));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

impl Sum {
    fn of(content: &[u8]) -> Self {
        Self { bytes: content.len() as u64, blake3: blake3::hash(content).to_hex().to_string() }
    }
}

/// Unpacks a bundle into an empty folder.
pub fn unpack(from: impl Read, into: &Path) -> Result<Opened, BundleError> {
    let foreign_error = |reason: String| BundleError::Foreign(reason);
    let mut totals = limits::Read::default();
    archive::each(from, |Item { path, entry, .. }| {
        let inner = path.strip_prefix(TOP).map(Path::to_owned).unwrap_or_default();
        let is_plain = inner.components().all(|part| matches!(part, Component::Normal(_)));
        if inner.as_os_str().is_empty() || !is_plain || entry.header().entry_type() != EntryType::Regular {
            return Err(foreign_error(format!("it holds `{}`", path.display())));
        }
        totals.add(&inner, entry.size())?;
        let target = into.join(inner);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::OpenOptions::new().create_new(true).write(true).open(&target)?;
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        io::copy(entry, &mut file)?;
        if is_executable {
            file.set_permissions(PermissionsExt::from_mode(0o755))?;
        }
        Ok(())
    })?;
    if totals.files == 0 {
        return Err(foreign_error("it is empty".to_owned()));
    }
    let text = fs::read(into.join(CONTENTS)).map_err(|_| foreign_error(format!("it has no `{CONTENTS}`")))?;
    let json = serde_json::from_slice::<serde_json::Value>(&text).map_err(|error| foreign_error(error.to_string()))?;
    let format = json["format"].as_u64().and_then(|format| u32::try_from(format).ok()).unwrap_or(0);
    if format > FORMAT {
        return Err(BundleError::TooNew(format));
    }
    let contents: Contents = serde_json::from_value(json).map_err(|error| foreign_error(error.to_string()))?;
    limits::stay_inside(&contents.request.paths, contents.above)?;
    Ok(Opened::new(into.to_owned(), contents, totals.bytes))
}

/// The folder that all of these files are in.
fn common_folder<'p>(mut files: impl Iterator<Item = &'p Path>) -> PathBuf {
    let folder = |path: &Path| path.parent().unwrap_or(Path::new("/")).to_owned();
    let mut ancestor = files.next().map(folder).unwrap_or_default();
    for file in files {
        while !file.starts_with(&ancestor) && ancestor.pop() {}
    }
    ancestor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_all_files_is_the_deepest_that_has_them() {
        for (files, folder) in [
            (&["/a/b/x.yaml"][..], "/a/b"),
            (&["/a/b/x.yaml", "/a/b/c/y.yaml"], "/a/b"),
            (&["/a/b/x.yaml", "/a/bc/y.yaml"], "/a"),
            (&["/a/x.yaml", "/b/y.yaml"], "/"),
        ] {
            assert_eq!(common_folder(files.iter().map(Path::new)), Path::new(folder));
        }
    }

    #[test]
    fn an_archive_cannot_write_elsewhere() {
        use tar::Header;

        let entry = |path: &str, kind: EntryType, link: &str| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o644);
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_cksum();
            let mut archive = header.as_bytes().to_vec();
            archive.extend([0; 1024]);
            archive
        };
        for (path, kind, link) in [
            ("../evil", EntryType::Regular, ""),
            ("/tmp/evil", EntryType::Regular, ""),
            ("sweep-bundle/../evil", EntryType::Regular, ""),
            ("sweep-bundle/l", EntryType::Symlink, "/etc/passwd"),
            ("sweep-bundle/l", EntryType::Link, "/etc/passwd"),
            ("sweep-records/x", EntryType::Regular, ""),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let result = unpack(io::Cursor::new(entry(path, kind, link)), folder.path());
            assert!(matches!(result, Err(BundleError::Foreign(_))), "{path}: {result:?}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(unpack(io::Cursor::new(b""), folder.path()), Err(BundleError::Foreign(_))));
        assert!(matches!(unpack(io::Cursor::new(b"no archive"), folder.path()), Err(BundleError::Foreign(_))));
    }
}
