//! Inputs and artifacts before and after a job: distinguishes files that the job wrote from files that others changed.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fs_err as fs;

use super::{
    Changed, Reads,
    artifact::{Artifact, Defect, STRAY},
};
use crate::{
    format::count,
    plan::{Digests, Made, Tree},
    run::writes::{Writes, real},
};

/// The clock of files is late by up to this time.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// A difference of an input from its state when a job was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    /// Path from the input.
    inner: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Added,
    Changed,
    /// Changed by another job, and perhaps changed back.
    ByAnother,
    Removed,
}

/// A check of the files that a job reads.
pub(crate) struct Check<'a> {
    pub digests: &'a Mutex<Digests>,
    pub writes: &'a Writes,
    /// The job, by its place in the plan.
    pub job: usize,
    /// Paths without links that the job has written; `None` before it starts.
    pub written: Option<HashSet<PathBuf>>,
}

impl Reads {
    /// Checks that all inputs and artifacts are in the planned state, except for files that jobs of this run have written.
    /// Files that `digests` lists and that have not changed since are not read again. Returns notes about the files that the
    /// job wrote.
    pub(crate) fn check(&self, check: &Check<'_>) -> Result<Vec<String>, Changed> {
        let mut notes = Vec::new();
        for (path, digest) in &self.inputs {
            let own = check.input(path, &self.ignored, digest)?;
            notes.extend(note_of_input(path, &own));
        }
        for artifact in &self.artifacts {
            notes.extend(check.artifact(artifact)?);
        }
        Ok(notes)
    }
}

impl Check<'_> {
    fn digests(&self) -> MutexGuard<'_, Digests> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_own(&self, path: &Path) -> bool {
        self.written.as_ref().is_some_and(|paths| paths.contains(path))
    }

    /// Compares an input with the plan; returns the changes that the job itself made.
    fn input(&self, path: &Path, ignored: &[String], planned_digest: &str) -> Result<Vec<Difference>, Changed> {
        let unreadable = |error: io::Error| Changed::Unreadable { path: path.to_owned(), reason: error.to_string() };
        if self.written.is_some() {
            self.check_others(path, ignored, planned_digest)?;
        }
        loop {
            let (before, now) = {
                let mut digests = self.digests();
                if digests.now(path, ignored).map_err(unreadable)? == planned_digest {
                    return Ok(self.made_in(path, &mut digests));
                }
                (digests.tree_before(path, ignored, planned_digest), digests.tree(path, ignored).map_err(unreadable)?)
            };
            let before = before.ok_or_else(|| Changed::Input { path: path.to_owned(), during: "" })?;
            let known = self.writes.known();
            let path_of = |difference: &Difference| real(&path.join(&difference.inner));
            let is_by_jobs = |difference: &Difference| {
                let path = path_of(difference);
                self.is_own(&path) || difference.kind == Kind::Added && known.contains(&path)
            };
            let (by_jobs, foreign_differences): (Vec<_>, Vec<_>) =
                differences(&before, &now).into_iter().partition(is_by_jobs);
            // A folder exists while it has files.
            let is_folder = |tree: &Tree, inner: &Path| tree.get(inner).is_some_and(Option::is_none);
            let is_around = |other: &Difference| {
                let is_folder = is_folder(&now, &other.inner) || is_folder(&before, &other.inner);
                is_folder && by_jobs.iter().any(|own| own.kind == other.kind && own.inner.starts_with(&other.inner))
            };
            let (folders, foreign_differences): (Vec<_>, Vec<_>) = foreign_differences.into_iter().partition(is_around);
            let Some(first) = foreign_differences.first() else {
                let added_differences = by_jobs.iter().chain(&folders).filter(|own| own.kind == Kind::Added);
                let entries = added_differences.filter_map(|own| {
                    let digest = now.get(&own.inner)?.clone().unwrap_or_else(|| Made::FOLDER.to_owned());
                    Some((path.join(&own.inner), digest))
                });
                self.digests().made().remember(entries).map_err(unreadable)?;
                return Ok(by_jobs.into_iter().filter(|own| self.is_own(&path_of(own))).collect());
            };
            // The writes of another job are known only when it ends, so this job waits for one.
            if foreign_differences.iter().all(|other| other.kind == Kind::Added)
                && self.writes.wait_for_another(self.job, path)
            {
                continue;
            }
            return Err(inside(path, first));
        }
    }

    /// Fails if another job has changed a planned file of an input while this job ran. The file may have its planned content
    /// again, but this job may have read another one.
    fn check_others(&self, path: &Path, ignored: &[String], planned_digest: &str) -> Result<(), Changed> {
        let Some(begun) = self.writes.begun(self.job).and_then(|begun| begun.checked_sub(CLOCK_TICK)) else {
            return Ok(());
        };
        let Some(planned) = self.digests().tree_before(path, ignored, planned_digest) else { return Ok(()) };
        let input = real(path);
        // Programs also open files for writing that they do not change. A file that is gone differs from the plan in any case.
        let is_touched = |file: &Path| {
            let modified = fs::metadata(file).and_then(|metadata| metadata.modified());
            modified.is_ok_and(|modified| modified >= begun)
        };
        let of_input = |file: &PathBuf| {
            let inner = file.strip_prefix(&input).ok()?.to_owned();
            (planned.contains_key(&inner) && is_touched(file)).then_some(inner)
        };
        let (own, _) = self.writes.changed(self.job, &input);
        // The writes of another job are known only when it ends.
        if own.iter().any(|file| of_input(file).is_some()) || input.is_file() && is_touched(&input) {
            self.writes.wait_for_others(self.job, &input);
        }
        let (_, others) = self.writes.changed(self.job, &input);
        match others.iter().find_map(of_input) {
            Some(inner) => Err(inside(path, &Difference { inner, kind: Kind::ByAnother })),
            None => Ok(()),
        }
    }

    /// Files that the job made in an input and that the check of another job has found first.
    fn made_in(&self, path: &Path, digests: &mut Digests) -> Vec<Difference> {
        let path = real(path);
        let pairs = self.written.iter().flatten().filter_map(|file| Some((file, file.strip_prefix(&path).ok()?)));
        let known_pairs = pairs.filter(|(file, _)| digests.made().has(file));
        known_pairs.map(|(_, inner)| Difference { inner: inner.to_owned(), kind: Kind::Added }).collect()
    }

    /// Compares an artifact with its record, and removes files that jobs have added to it.
    fn artifact(&self, artifact: &Artifact) -> Result<Vec<String>, Changed> {
        loop {
            let defects = artifact.defects(&mut self.digests()).map_err(|reason| artifact.changed(reason))?;
            if defects.is_empty() {
                return Ok(Vec::new());
            }
            let known = self.writes.known();
            let is_known = |file: &str, how: &str| {
                let path = real(&artifact.folder.join(file));
                // Only jobs write to the store, and the writes of some programs are not observed.
                self.is_own(&path) || how == STRAY && (self.written.is_some() || known.contains(&path))
            };
            let mut unknown_defects = defects.iter().filter(|defect| !is_known(&defect.file, defect.how)).peekable();
            let Some(first) = unknown_defects.peek().map(ToString::to_string) else {
                return self.mended(artifact, &defects);
            };
            if unknown_defects.all(|other| other.how == STRAY)
                && self.writes.wait_for_another(self.job, &artifact.folder)
            {
                continue;
            }
            return Err(artifact.changed(first));
        }
    }

    /// Removes files that jobs have added to an artifact, once no other job reads it.
    fn mended(&self, artifact: &Artifact, defects: &[Defect]) -> Result<Vec<String>, Changed> {
        let Artifact { label, name, folder, .. } = artifact;
        let mut notes = Vec::new();
        for defect in defects {
            let (path, file) = (real(&folder.join(&defect.file)), &defect.file);
            if defect.how != STRAY {
                notes.push(format!(
                    "the job changed `{file}` in the artifact `{name}` of {label}, which runs again for the next job that needs \
                     it; `copy: true` gives each job its own copy"
                ));
                continue;
            }
            if self.is_own(&path) || !self.writes.known().contains(&path) {
                notes.push(format!(
                    "`{file}`, which the job wrote into the artifact `{name}` of {label}, is not kept; `copy: true` gives each \
                     job its own copy"
                ));
            }
            if self.written.is_some() && !self.writes.is_read_by_another(self.job, folder) {
                remove(folder, &path).map_err(|error| artifact.changed(error.to_string()))?;
            }
        }
        Ok(notes)
    }
}

/// Removes a file that does not belong to a folder, and the folders that it leaves empty.
fn remove(folder: &Path, path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let folder = fs::canonicalize(folder)?;
    let mut parent = path.parent();
    // Records have no empty folders; `remove_dir` keeps the others.
    while let Some(empty) = parent.filter(|parent| parent.starts_with(&folder) && **parent != *folder) {
        if std::fs::remove_dir(empty).is_err() {
            break;
        }
        parent = empty.parent();
    }
    Ok(())
}

fn inside(path: &Path, difference: &Difference) -> Changed {
    let Some(name) = difference.inner.file_name() else {
        return Changed::Input { path: path.to_owned(), during: "" };
    };
    let how = match difference.kind {
        Kind::Added => "appeared",
        Kind::Changed => "has different content",
        Kind::ByAnother => "was written by another job",
        Kind::Removed => "is gone",
    };
    let file = difference.inner.display().to_string();
    Changed::Inside { path: path.to_owned(), file, how, name: name.to_string_lossy().into_owned(), during: "" }
}

/// The notice that names the files that a job wrote into an input.
fn note_of_input(input: &Path, own: &[Difference]) -> Vec<String> {
    let input = Path::new(input.file_name().unwrap_or(input.as_os_str()));
    let (added, changed): (Vec<_>, Vec<_>) = own.iter().partition(|own| own.kind == Kind::Added);
    let description = |first: &Difference, all: &[&Difference]| {
        let more = if all.len() > 1 { format!(" and {} more", count(all.len() - 1, "file")) } else { String::new() };
        format!("`{}`{more}", input.join(&first.inner).display().to_string().trim_end_matches('/'))
    };
    let mut notes = Vec::new();
    if let Some(first) = added.first() {
        let name = first.inner.file_name().unwrap_or_default().to_string_lossy();
        notes.push(format!(
            "the job wrote {} into its input, which stays out of keys; `ignore: ['{name}']` leaves such files out for good, \
             and `copy: true` gives each job its own copy",
            description(first, &added)
        ));
    }
    if let Some(first) = changed.first() {
        let is_file = first.inner.as_os_str().is_empty();
        let remedy = if is_file { "let it write to another file" } else { "`copy: true` gives each job its own copy" };
        notes.push(format!(
            "the job changed {}, which is an input, so jobs that read it have another key from now on; {remedy}",
            description(first, &changed)
        ));
    }
    notes
}

/// The differences of two states of an input.
fn differences(before: &Tree, now: &Tree) -> Vec<Difference> {
    let difference = |inner: &Path, kind| Difference { inner: inner.to_owned(), kind };
    let removals =
        before.keys().filter(|inner| !now.contains_key(*inner)).map(|inner| difference(inner, Kind::Removed));
    let changes = now.iter().filter_map(|(inner, digest)| match before.get(inner) {
        None => Some(difference(inner, Kind::Added)),
        Some(old) if old != digest => Some(difference(inner, Kind::Changed)),
        Some(_) => None,
    });
    changes.chain(removals).collect()
}
